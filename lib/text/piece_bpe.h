#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/model_proto.h"
#include "text/text_index.h"

namespace quire::text {

// Byte-pair encoding whose merges follow from the pieces, as SentencePiece does it
// (google/sentencepiece src/bpe_model.cc): neighbours merge where their joined text is a piece, the
// one with the highest score first, of equals the leftmost; an unused piece that this made is taken
// apart again. The sentencepiece library itself takes about 200 bytes for each piece: Gemma 3 270M
// would take 1.26 times its file after load, not 1.09. O(n log n) in the length of a text.
// Immutable: safe from any thread.
class PieceBpe {
 public:
  // Only normal and unused pieces match, of two with the same text the first. If all bytes have a
  // piece, they stand for what no piece spells; else the unknown piece does, once for a run;
  // without one it is dropped. Of the model's flags none counts.
  explicit PieceBpe(const PieceModel& model);

  // Appends ids. Spaces in the text, which is well-formed UTF-8 and shorter than 2^31 bytes, are
  // U+2581 already.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  class Word;  // a text while it is encoded

  struct Piece {
    std::int32_t id;
    float score;
  };

  TextIndex texts_;            // of the pieces that match
  std::vector<Piece> pieces_;  // by number in texts_
  std::vector<bool> unused_;   // likewise
  std::array<std::int32_t, 256> byte_tokens_;
  bool has_byte_tokens_ = false;  // all 256
  std::optional<std::int32_t> unknown_;
};

}  // namespace quire::text
