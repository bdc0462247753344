#pragma once

#include <memory>
#include <vector>

#include "text/added_tokens.h"
#include "text/segment_encoder.h"
#include "text/text_tokenizer.h"
#include "text/vocabulary.h"

namespace quire::text {

// What makes up a tokenizer.
struct TokenizerParts {
  Vocabulary vocabulary;
  AddedTokenMatcher added_tokens;
  std::unique_ptr<SegmentEncoder> encoder;  // null: ids only
};

// Takes the added tokens out of a text and leaves what is between them to an encoder.
class VocabularyTokenizer final : public TextTokenizer {
 public:
  explicit VocabularyTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  int vocabulary_size() const override;
  Result<std::vector<std::int32_t>> encode(std::string_view text,
                                           bool parse_special) const override;
  Result<std::vector<std::int32_t>> encode_pieces(
      std::span<const RenderedPiece> pieces) const override;
  std::vector<std::int32_t> add_special(std::vector<std::int32_t> ids) const override;
  std::string_view piece(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override;
  std::string_view special_text(std::int32_t id) const override;
  bool strips_leading_space() const override;
  std::optional<std::int32_t> bos() const override;
  std::optional<std::int32_t> eos() const override;
  const std::vector<std::int32_t>& end_tokens() const override;

 private:
  Result<std::vector<std::int32_t>> encode_clean(std::string_view text,
                                                 std::span<const TextRange> special_ranges) const;
  TokenizerParts parts_;
};

}  // namespace quire::text
