#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/split_pattern.h"

namespace quire::text {

// A token that is found in the text itself, before anything else is done to it.
struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool special = false;      // a control token: only where the caller allows it
  bool left_strip = false;   // swallows the white space before it
  bool right_strip = false;  // and after it
  bool single_word = false;  // not next to a letter, digit or underscore
  bool normalized = false;   // tokenizer.json: found in the normalised text
};

// Finds added tokens, leftmost first, of those the longest. Immutable: safe from any thread.
class AddedTokenMatcher {
 public:
  struct Match {
    TextRange range;  // with the white space that it swallows
    std::int32_t id;
  };

  AddedTokenMatcher() : AddedTokenMatcher(std::vector<AddedToken>()) {}
  // Tokens without content are left out.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Special tokens match only inside one of `special_ranges`, which are in order and disjoint.
  std::vector<Match> find_all(std::string_view text,
                              std::span<const TextRange> special_ranges) const;

 private:
  bool stands_alone(std::string_view text, TextRange range) const;

  std::vector<AddedToken> tokens_;
  std::bitset<256> first_bytes_;
  // A trie: node * 256 + byte -> node; the token that ends at a node, or -1.
  std::unordered_map<std::uint64_t, int> edges_;
  std::vector<int> token_at_;
};

}  // namespace quire::text
