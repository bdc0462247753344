#include "text/sentencepiece_encoder.h"

#include <sentencepiece_processor.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace quire::text {
namespace {

class SentencePieceEncoder final : public SegmentEncoder {
 public:
  explicit SentencePieceEncoder(SentencePieceOptions options) : options_(options) {}

  Status load(std::string_view proto) {
    const auto status = processor_.LoadFromSerializedProto({proto.data(), proto.size()});
    if (!status.ok()) {
      return error(StatusCode::malformed, "sentencepiece: {}", status.error_message());
    }
    return {};
  }

  Status encode(std::string_view text, SegmentPosition position,
                std::vector<std::int32_t>& ids) const override {
    std::string prefixed;
    if (options_.prefix == PrefixSpace::start_of_text &&
        position == SegmentPosition::start_of_text) {
      prefixed.reserve(text.size() + 1);
      prefixed += ' ';
      prefixed += text;
      text = prefixed;
    }
    std::vector<int> found;
    const auto status = processor_.Encode({text.data(), text.size()}, &found);
    if (!status.ok()) {
      return error(StatusCode::internal, "sentencepiece: {}", status.error_message());
    }
    for (const int id : found) {
      if (id < options_.vocabulary_size) ids.push_back(id);
    }
    return {};
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  SentencePieceOptions options_;
};

}  // namespace

Result<std::unique_ptr<SegmentEncoder>> make_sentencepiece_encoder(std::string_view proto,
                                                                   SentencePieceOptions options) {
  return guarded("sentencepiece", [&]() -> Result<std::unique_ptr<SegmentEncoder>> {
    auto encoder = std::make_unique<SentencePieceEncoder>(options);
    if (Status status = encoder->load(proto); !status) return status;
    return std::unique_ptr<SegmentEncoder>(std::move(encoder));
  });
}

}  // namespace quire::text
