#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/token.h"

namespace quire::text::jinja {

// An error with its place in the source.
struct SyntaxFailure {
  Failure failure;
  std::size_t offset;
};

// As Jinja reads a source: newlines become "\n", one at the very end is dropped.
std::string normalize_newlines(std::string_view source);

// Splits a template into tokens, with the white space rules of trim_blocks and lstrip_blocks. The
// last token is `end`. Throws SyntaxFailure. `source` has normalized newlines.
std::vector<Token> tokenize(std::string_view source);

}  // namespace quire::text::jinja
