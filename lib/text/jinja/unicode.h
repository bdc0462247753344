#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/jinja/traced_text.h"

namespace quire::text::jinja {

// Strings are UTF-8 and are counted in code points, as Python counts. A byte that starts no
// well-formed sequence counts as one character of its own.

// One character of `text` at byte `offset`, which must be inside it.
struct Character {
  char32_t code;       // 0xFFFD for an ill-formed byte
  std::size_t length;  // in bytes
};
Character character_at(std::string_view text, std::size_t offset);

std::size_t count_characters(std::string_view text);
// Byte offset of the character with that index; text.size() if there are not so many.
std::size_t byte_offset(std::string_view text, std::size_t index);
void append_utf8(std::string& out, char32_t code);

// The White_Space characters that Python's str.isspace knows.
bool is_space(char32_t code);
// Bytes of white space at the start and at the end.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

bool is_letter(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_digit(char32_t code);

// title: as str.title, a word starts after anything but a letter. words: as Jinja's filter `title`,
// a word starts after white space or one of -({[<.
enum class Case { upper, lower, title, words, capitalize };
// Every character keeps its trust.
TracedText change_case(const TracedText& text, Case target);

}  // namespace quire::text::jinja
