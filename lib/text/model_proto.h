#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>

#include "text/vocabulary.h"

namespace quire::text {

// A SentencePiece model as its ModelProto stores it (google/sentencepiece
// src/sentencepiece_model.proto), or the keys of a GGUF.
struct PieceModel {
  struct Piece {
    std::string_view text;  // into the file's bytes
    float score = 0;
    TokenKind kind = TokenKind::normal;
  };
  std::vector<Piece> pieces;
  std::optional<std::int32_t> unknown;
  std::optional<std::int32_t> bos, eos;
  std::string_view character_map;  // of the normaliser: a trie and the texts it points to
  bool adds_prefix_space = false;
  bool removes_extra_spaces = false;
  bool space_is_suffix = false;
};

// The same model with add_dummy_prefix off.
std::string without_prefix_space(std::string_view proto);

// Reads and checks the bytes of a tokenizer.model. Views into `bytes`.
Result<PieceModel> read_model_proto(std::string_view bytes, const std::string& file);

}  // namespace quire::text
