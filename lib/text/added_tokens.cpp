#include "text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace quire::text {
namespace {

bool is_white_space(char32_t c) {
  if ((c >= 0x09 && c <= 0x0D) || c == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_word(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) ||
         category == UTF8PROC_CATEGORY_PC;
}

char32_t character_before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return next_utf8(text.substr(begin)).code_point;
}

std::size_t strip_left(std::string_view text, std::size_t at, std::size_t stop) {
  while (at > stop) {
    const char32_t c = character_before(text, at);
    if (!is_white_space(c)) break;
    do {
      --at;
    } while (at > stop && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return at;
}

std::size_t strip_right(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Step step = next_utf8(text.substr(at));
    if (!is_white_space(step.code_point)) break;
    at += step.length;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : token_at_(1, -1) {
  std::erase_if(tokens, [](const AddedToken& token) { return token.content.empty(); });
  tokens_ = std::move(tokens);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    first_bytes_.set(static_cast<unsigned char>(tokens_[i].content[0]));
    int node = 0;
    for (const char c : tokens_[i].content) {
      const auto key = static_cast<std::uint64_t>(node) * 256 + static_cast<unsigned char>(c);
      const auto [edge, added] = edges_.try_emplace(key, static_cast<int>(token_at_.size()));
      if (added) token_at_.push_back(-1);
      node = edge->second;
    }
    if (token_at_[node] < 0) token_at_[node] = static_cast<int>(i);
  }
}

bool AddedTokenMatcher::stands_alone(std::string_view text, TextRange range) const {
  if (range.begin > 0 && is_word(character_before(text, range.begin))) return false;
  return range.end == text.size() || !is_word(next_utf8(text.substr(range.end)).code_point);
}

std::vector<AddedTokenMatcher::Match> AddedTokenMatcher::find_all(
    std::string_view text, std::span<const TextRange> special_ranges) const {
  std::vector<Match> matches;
  if (tokens_.empty()) return matches;
  std::size_t stop = 0;  // end of the last match
  std::size_t special = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!first_bytes_.test(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    while (special < special_ranges.size() && special_ranges[special].end <= at) ++special;
    const bool inside = special < special_ranges.size() && special_ranges[special].begin <= at;
    const std::size_t special_end = inside ? special_ranges[special].end : 0;
    const AddedToken* best = nullptr;
    int node = 0;
    for (std::size_t end = at; end < text.size();) {
      const auto edge = edges_.find(static_cast<std::uint64_t>(node) * 256 +
                                    static_cast<unsigned char>(text[end]));
      if (edge == edges_.end()) break;
      node = edge->second;
      ++end;
      if (token_at_[node] < 0) continue;
      const AddedToken& token = tokens_[token_at_[node]];
      if (token.special && end > special_end) continue;
      if (token.single_word && !stands_alone(text, {at, end})) continue;
      best = &token;
    }
    if (best == nullptr) {
      ++at;
      continue;
    }
    const std::size_t end = at + best->content.size();
    matches.push_back({{best->left_strip ? strip_left(text, at, stop) : at,
                        best->right_strip ? strip_right(text, end) : end},
                       best->id});
    at = stop = matches.back().range.end;
  }
  return matches;
}

}  // namespace quire::text
