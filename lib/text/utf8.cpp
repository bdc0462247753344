#include "text/utf8.h"

namespace quire::text {
namespace {

struct LeadByte {
  std::size_t length;        // of the whole character; 0: no lead byte
  unsigned char second_low;  // range of the second byte
  unsigned char second_high;
};

LeadByte classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
  using Kind = Utf8Step::Kind;
  const auto first = static_cast<unsigned char>(text[0]);
  const LeadByte lead = classify(first);
  if (lead.length == 0) return {Kind::ill_formed, 1, 0};
  if (lead.length == 1) return {Kind::character, 1, first};
  char32_t c = first & (0xFFu >> (lead.length + 1));
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Kind::incomplete, i, 0};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Kind::ill_formed, i, 0};
    c = (c << 6) | (byte & 0x3F);
  }
  return {Kind::character, lead.length, c};
}

}  // namespace quire::text
