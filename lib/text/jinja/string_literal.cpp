#include "text/jinja/string_literal.h"

#include <charconv>
#include <cstdint>

#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

// Reads exactly `count` hexadecimal digits of a character.
bool append_hexadecimal(std::string& out, std::string_view digits, std::size_t count) {
  std::uint32_t code = 0;
  digits = digits.substr(0, count);
  auto end = digits.data() + digits.size();
  auto parsed = std::from_chars(digits.data(), end, code, 16);
  if (digits.size() != count || parsed.ec != std::errc() || parsed.ptr != end) return false;
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  append_utf8(out, code);
  return true;
}

char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

}  // namespace

std::optional<std::string> decode_string_literal(std::string_view literal) {
  std::string out;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out += literal[i];
      continue;
    }
    char c = literal[++i];
    if (char simple = simple_escape(c)) {
      out += simple;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      if (!append_hexadecimal(out, literal.substr(i + 1), count)) return std::nullopt;
      i += count;
    } else if (is_octal(c)) {
      char32_t code = 0;
      std::size_t end = std::min(i + 3, literal.size());
      for (; i < end && is_octal(literal[i]); ++i) code = code * 8 + (literal[i] - '0');
      --i;
      append_utf8(out, code);
    } else if (c == 'N') {
      return std::nullopt;
    } else if (c != '\n') {  // a backslash at the end of a line joins it with the next
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace quire::text::jinja
