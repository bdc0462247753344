#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quire::text::jinja {

enum class TokenKind {
  data,         // text between tags
  begin_print,  // {{
  end_print,    // }}
  begin_block,  // {%
  end_block,    // %}
  name,
  string,
  integer,
  real,
  symbol,  // an operator or a bracket
  end      // of the source
};

struct Token {
  TokenKind kind;
  std::string text;    // decoded for strings, as written for all others
  std::size_t offset;  // in the source, in bytes
};

}  // namespace quire::text::jinja
