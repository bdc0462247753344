#include "text/piece_encoder.h"

#include <algorithm>
#include <string>

#include "text/piece_bpe.h"
#include "text/token_spelling.h"

namespace quire::text {
namespace {

class PieceEncoder final : public SegmentEncoder {
 public:
  explicit PieceEncoder(const PieceModel& model)
      : adds_prefix_space_(model.adds_prefix_space),
        removes_extra_spaces_(model.removes_extra_spaces),
        model_(model) {}

  Status encode(std::string_view text, SegmentPosition,
                std::vector<std::int32_t>& ids) const override {
    model_.encode(normalized(text), ids);
    return {};
  }

 private:
  // With U+2581 for spaces (google/sentencepiece src/normalizer.cc).
  std::string normalized(std::string_view text) const {
    std::string out;
    if (removes_extra_spaces_)
      text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return out;
    if (adds_prefix_space_) out += metaspace;
    bool after_space = false;
    for (const char c : text) {
      const bool space = c == ' ';
      if (!space) {
        out += c;
      } else if (!removes_extra_spaces_ || !after_space) {
        out += metaspace;
      }
      after_space = space;
    }
    while (removes_extra_spaces_ && out.ends_with(metaspace)) {
      out.resize(out.size() - metaspace.size());
    }
    return out;
  }

  bool adds_prefix_space_;
  bool removes_extra_spaces_;
  PieceBpe model_;
};

}  // namespace

std::unique_ptr<SegmentEncoder> make_piece_encoder(const PieceModel& model) {
  return std::make_unique<PieceEncoder>(model);
}

}  // namespace quire::text
