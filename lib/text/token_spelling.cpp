#include "text/token_spelling.h"

#include <array>

#include "text/utf8.h"

namespace quire::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Code point -> byte, or -1; the highest is U+0143.
constexpr std::array<short, 0x144> make_table() {
  std::array<short, 0x144> table{};
  for (auto& entry : table) entry = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    table[stands_for_itself(byte) ? byte : next++] = static_cast<short>(byte);
  }
  return table;
}
constexpr auto byte_of_character = make_table();

constexpr std::array<char32_t, 256> invert_table() {
  std::array<char32_t, 256> table{};
  for (std::size_t c = 0; c < byte_of_character.size(); ++c) {
    if (byte_of_character[c] >= 0) table[byte_of_character[c]] = static_cast<char32_t>(c);
  }
  return table;
}
constexpr auto character_of_byte = invert_table();

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> bytes_from_byte_level(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind != Utf8Step::Kind::character) return std::nullopt;
    if (step.code_point >= byte_of_character.size()) return std::nullopt;
    const short byte = byte_of_character[step.code_point];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    text.remove_prefix(step.length);
  }
  return bytes;
}

void append_byte_level(std::string_view bytes, std::string& out) {
  for (const char c : bytes) append_utf8(character_of_byte[static_cast<unsigned char>(c)], out);
}

std::optional<unsigned char> parse_byte_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const int high = hexadecimal(piece[3]);
  const int low = hexadecimal(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string spaces_from_metaspace(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool space = piece.substr(at).starts_with(metaspace);
    text += space ? ' ' : piece[at];
    at += space ? metaspace.size() : 1;
  }
  return text;
}

}  // namespace quire::text
