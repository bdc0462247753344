#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/token_table.h"

namespace quire::text {

// The tokens of a model as they leave it, and which of them have a meaning.
struct Vocabulary {
  TokenTable tokens;
  std::int32_t declared_size = 0;  // number of ids of a model without a tokenizer

  std::optional<std::int32_t> bos, eos;
  // What goes around a text that is encoded with its special tokens.
  std::vector<std::int32_t> prefix, suffix;
  std::vector<std::int32_t> end_tokens;  // sorted, each once
  bool strips_leading_space = false;

  bool contains(std::int64_t id) const {
    return id >= 0 && id < static_cast<std::int64_t>(tokens.size());
  }
  bool is_special(std::int64_t id) const {
    return contains(id) &&
           (tokens[id].kind == TokenKind::control || tokens[id].kind == TokenKind::unknown);
  }
};

// Adds to end_tokens: eos, and the control tokens that are known to end a turn by their text
// ("<|im_end|>", ...), as files often name only one of several. Sorts and removes duplicates.
void complete_end_tokens(Vocabulary& vocabulary);

}  // namespace quire::text
