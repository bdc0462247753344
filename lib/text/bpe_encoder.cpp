#include "text/bpe_encoder.h"

#include <string>
#include <utility>

namespace quire::text {
namespace {

class BpeEncoder final : public SegmentEncoder {
 public:
  explicit BpeEncoder(BpePipeline pipeline) : pipeline_(std::move(pipeline)) {}

  Status encode(std::string_view text, SegmentPosition position,
                std::vector<std::int32_t>& ids) const override {
    std::string normalized(text);
    if (Status status = pipeline_.normalizer.apply(normalized); !status) return status;
    std::size_t at = 0;
    for (const auto& match : pipeline_.normalized_tokens.find_all(normalized, {})) {
      Status status = encode_words(normalized.substr(at, match.range.begin - at), position, ids);
      if (!status) return status;
      position = SegmentPosition::after_added_token;
      ids.push_back(match.id);
      at = match.range.end;
    }
    if (at > 0) normalized.erase(0, at);
    return encode_words(std::move(normalized), position, ids);
  }

 private:
  Status encode_words(std::string text, SegmentPosition position,
                      std::vector<std::int32_t>& ids) const {
    std::vector<TextRange> words;
    if (Status status = pipeline_.pre_tokenizer.split(text, position, words); !status)
      return status;
    BpeModel::Scratch scratch;
    for (const TextRange& word : words) {
      pipeline_.model.encode(std::string_view(text).substr(word.begin, word.size()), scratch, ids);
    }
    return {};
  }

  BpePipeline pipeline_;
};

}  // namespace

std::unique_ptr<SegmentEncoder> make_bpe_encoder(BpePipeline pipeline) {
  return std::make_unique<BpeEncoder>(std::move(pipeline));
}

}  // namespace quire::text
