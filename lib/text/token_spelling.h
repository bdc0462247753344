#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire::text {

// How vocabularies spell bytes and spaces.
//
// Byte-level vocabularies write each byte as one printable character (openai/gpt-2 encoder.py): the
// printable Latin-1 bytes stand for themselves, the other 68 follow from U+0100 on.

// The bytes that such a text stands for, or nothing if it has another character or is ill-formed.
std::optional<std::string> bytes_from_byte_level(std::string_view text);

// Appends the text that stands for the bytes.
void append_byte_level(std::string_view bytes, std::string& out);

// The byte that a piece "<0xHH>" stands for: exactly two hexadecimal digits, or nothing.
std::optional<unsigned char> parse_byte_piece(std::string_view piece);

// SentencePiece's stand-in for a space, U+2581.
inline constexpr std::string_view metaspace = "\u2581";

// The piece with spaces in place of U+2581.
std::string spaces_from_metaspace(std::string_view piece);

}  // namespace quire::text
