#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <quire/status.h>

#include "text/pair_table.h"
#include "text/text_index.h"

namespace quire::text {

// What a byte-pair encoding is made of.
struct BpeVocabulary {
  enum class Alphabet { bytes, characters };  // what a word is cut into at first

  struct Entry {
    std::string text;  // in the alphabet's own form: raw bytes, not their byte-level spelling
    std::int32_t id;
  };
  std::vector<Entry> entries;  // of two with the same text the first counts
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
  Alphabet alphabet = Alphabet::bytes;
  std::array<std::int32_t, 256> byte_tokens{};  // for characters without a token; -1: none
  std::optional<std::int32_t> unknown;  // for what no token can spell; nothing: it is dropped
  bool fuse_unknown = false;            // neighbouring unknowns become one
  bool ignore_merges = false;           // a word that is a token needs no merges

  BpeVocabulary() { byte_tokens.fill(-1); }
};

// Byte-pair encoding of single words: the pair with the lowest rank merges first, of equals the
// leftmost (Sennrich et al. 2016, arXiv:1508.07909). O(n log n) in the length of a word.
class BpeModel {
 public:
  explicit BpeModel(BpeVocabulary vocabulary);

  // Working memory of one call of `encode`, reused from word to word.
  struct Scratch {
    std::vector<std::int32_t> symbols, previous, next, spelled;
    std::vector<std::uint64_t> queue;  // rank << 32 | position
  };
  // Appends the ids of a word, which is well-formed UTF-8 and shorter than 2^31 bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  // Working symbols: >= 0 one of symbols_; unknown_symbol; or first_byte_symbol - b, the byte
  // b of a character that has no symbol; or merged_away.
  static constexpr std::int32_t unknown_symbol = TextIndex::absent;
  static constexpr std::int32_t first_byte_symbol = -2;
  static constexpr std::int32_t merged_away = first_byte_symbol - 256;

  std::int32_t intern(std::string_view text);
  void add_merges(const std::vector<std::pair<std::string, std::string>>& merges);
  void split(std::string_view word, std::vector<std::int32_t>& symbols) const;
  void merge(Scratch& scratch) const;
  bool append(std::int32_t symbol, std::vector<std::int32_t>& ids, bool fuse) const;

  BpeVocabulary::Alphabet alphabet_;
  std::array<std::int32_t, 256> byte_tokens_;
  bool has_byte_tokens_ = false;  // all 256
  std::optional<std::int32_t> unknown_;
  bool fuse_unknown_;
  bool ignore_merges_;
  TextIndex symbols_;                   // tokens, single bytes, and what only merges mention
  std::vector<std::int32_t> token_of_;  // of each symbol, or -1
  std::array<std::int32_t, 256> byte_symbols_{};  // alphabet of bytes: every byte has a symbol
  PairTable merges_;
};

}  // namespace quire::text
