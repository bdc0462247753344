#pragma once

#include <cstddef>
#include <string_view>

namespace quire::text {

// The next character of a UTF-8 text, or the next maximal ill-formed part as WHATWG's decoder sees
// it (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts").
struct Utf8Step {
  enum class Kind { character, ill_formed, incomplete };
  Kind kind;
  std::size_t length;   // bytes
  char32_t code_point;  // of a character
};

// `text` is not empty. Incomplete: the text ends inside a character that more bytes could complete.
Utf8Step next_utf8(std::string_view text);

// Appends the UTF-8 form of a code point.
template <class String>
void append_utf8(char32_t c, String& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// U+FFFD, what stands for an ill-formed part.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

}  // namespace quire::text
