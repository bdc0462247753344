#include "text/vocabulary_tokenizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "text/detokenizer.h"

namespace quire::text {
namespace {

// Positions inside a word are 32-bit, and ill-formed bytes and prefixes make a text longer.
constexpr std::size_t longest_text = std::size_t{1} << 28;

Status too_long(std::size_t size) {
  return error(StatusCode::resource_exhausted, "a text of {} bytes is longer than {}", size,
               longest_text);
}

bool starts_with(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& prefix) {
  return ids.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), ids.begin());
}

bool ends_with(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& suffix) {
  return ids.size() >= suffix.size() && std::equal(suffix.rbegin(), suffix.rend(), ids.rbegin());
}

}  // namespace

int VocabularyTokenizer::vocabulary_size() const {
  const Vocabulary& vocabulary = parts_.vocabulary;
  return std::max(static_cast<int>(vocabulary.tokens.size()), vocabulary.declared_size);
}

Result<std::vector<std::int32_t>> VocabularyTokenizer::encode(std::string_view text,
                                                              bool parse_special) const {
  return guarded("tokenizer", [&]() -> Result<std::vector<std::int32_t>> {
    if (text.size() > longest_text) return too_long(text.size());
    const std::string clean = replace_ill_formed(text);
    std::vector<TextRange> special_ranges;
    if (parse_special) special_ranges.push_back({0, clean.size()});
    return encode_clean(clean, special_ranges);
  });
}

Result<std::vector<std::int32_t>> VocabularyTokenizer::encode_pieces(
    std::span<const RenderedPiece> pieces) const {
  return guarded("tokenizer", [&]() -> Result<std::vector<std::int32_t>> {
    std::size_t size = 0;
    for (const RenderedPiece& piece : pieces) {
      if (piece.text.size() > longest_text - size) return too_long(size + piece.text.size());
      size += piece.text.size();
    }
    std::string text;
    text.reserve(size);
    std::vector<TextRange> special_ranges;
    for (const RenderedPiece& piece : pieces) {
      const std::size_t begin = text.size();
      text += replace_ill_formed(piece.text);
      if (!piece.trusted || piece.text.empty()) continue;
      if (!special_ranges.empty() && special_ranges.back().end == begin) {
        special_ranges.back().end = text.size();
      } else {
        special_ranges.push_back({begin, text.size()});
      }
    }
    auto ids = encode_clean(text, special_ranges);
    const std::vector<std::int32_t>& prefix = parts_.vocabulary.prefix;
    if (ids && !starts_with(*ids, prefix)) ids->insert(ids->begin(), prefix.begin(), prefix.end());
    return ids;
  });
}

Result<std::vector<std::int32_t>> VocabularyTokenizer::encode_clean(
    std::string_view text, std::span<const TextRange> special_ranges) const {
  std::vector<std::int32_t> ids;
  if (!parts_.encoder) {
    return error(StatusCode::unsupported, "the model has no tokenizer: give token ids");
  }
  std::size_t at = 0;
  const auto encode_until = [&](std::size_t end) -> Status {
    if (end == at) return {};
    const auto position =
        at == 0 ? SegmentPosition::start_of_text : SegmentPosition::after_added_token;
    return parts_.encoder->encode(text.substr(at, end - at), position, ids);
  };
  for (const auto& match : parts_.added_tokens.find_all(text, special_ranges)) {
    if (Status status = encode_until(match.range.begin); !status) return status;
    ids.push_back(match.id);
    at = match.range.end;
  }
  if (Status status = encode_until(text.size()); !status) return status;
  return ids;
}

std::vector<std::int32_t> VocabularyTokenizer::add_special(std::vector<std::int32_t> ids) const {
  const auto& prefix = parts_.vocabulary.prefix;
  const auto& suffix = parts_.vocabulary.suffix;
  if (!starts_with(ids, prefix)) ids.insert(ids.begin(), prefix.begin(), prefix.end());
  if (!ends_with(ids, suffix)) ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

std::string_view VocabularyTokenizer::piece(std::int32_t id) const {
  if (!parts_.vocabulary.contains(id) || is_special(id)) return {};
  return parts_.vocabulary.tokens[id].text;
}

bool VocabularyTokenizer::is_special(std::int32_t id) const {
  return parts_.vocabulary.is_special(id);
}

std::string_view VocabularyTokenizer::special_text(std::int32_t id) const {
  if (!is_special(id)) return {};
  return parts_.vocabulary.tokens[id].text;
}

bool VocabularyTokenizer::strips_leading_space() const {
  return parts_.vocabulary.strips_leading_space;
}

std::optional<std::int32_t> VocabularyTokenizer::bos() const {
  return parts_.vocabulary.bos;
}

std::optional<std::int32_t> VocabularyTokenizer::eos() const {
  return parts_.vocabulary.eos;
}

const std::vector<std::int32_t>& VocabularyTokenizer::end_tokens() const {
  return parts_.vocabulary.end_tokens;
}

}  // namespace quire::text
