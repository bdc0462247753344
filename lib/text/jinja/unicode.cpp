#include "text/jinja/unicode.h"

#include <utf8proc.h>

namespace quire::text::jinja {

Character character_at(std::string_view text, std::size_t offset) {
  auto byte = static_cast<unsigned char>(text[offset]);
  if (byte < 0x80) return {byte, 1};
  utf8proc_int32_t code = 0;
  auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + offset,
                                 static_cast<utf8proc_ssize_t>(text.size() - offset), &code);
  if (length <= 0) return {0xFFFD, 1};
  return {static_cast<char32_t>(code), static_cast<std::size_t>(length)};
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) at += character_at(text, at).length;
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_at(text, at).length;
  return at;
}

void append_utf8(std::string& out, char32_t code) {
  utf8proc_uint8_t buffer[4];
  auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(length));
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    Character c = character_at(text, at);
    if (!is_space(c.code)) break;
    at += c.length;
  }
  return at;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && end - start < 4 &&
           (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
      --start;
    }
    Character c = character_at(text, start);
    if (start + c.length != end || !is_space(c.code)) break;
    end = start;
  }
  return text.size() - end;
}

bool is_letter(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}
bool is_upper(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_LL;
}
bool is_digit(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_ND;
}

static bool starts_word_after(char32_t code) {
  return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
}

TracedText change_case(const TracedText& text, Case target) {
  TracedText result;
  result.set_markup(text.markup());
  std::string piece;
  bool word_start = true;
  for (std::size_t at = 0; at < text.size();) {
    Character c = character_at(text.view(), at);
    bool ill_formed = c.code == 0xFFFD && c.length == 1;
    bool upper = target == Case::upper || (target != Case::lower && word_start);
    piece.clear();
    if (ill_formed) {
      piece = text.view().substr(at, 1);
    } else if (upper && c.code == 0xDF) {
      piece = target == Case::upper ? "SS" : "Ss";  // the one common letter that grows
    } else {
      auto code = static_cast<utf8proc_int32_t>(c.code);
      append_utf8(piece, static_cast<char32_t>(!upper                  ? utf8proc_tolower(code)
                                               : target == Case::upper ? utf8proc_toupper(code)
                                                                       : utf8proc_totitle(code)));
    }
    result.append(piece, text.trust_at(at));
    word_start = (target == Case::title && !is_letter(c.code)) ||
                 (target == Case::words && starts_word_after(c.code));
    at += c.length;
  }
  return result;
}

}  // namespace quire::text::jinja
