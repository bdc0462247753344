#include "text/detokenizer.h"

#include <random>
#include <string>
#include <vector>

#include "catch.h"

namespace quire::text {
namespace {

// Table 3-7 of the Unicode standard, looked up byte by byte: the length of the well-formed
// character at the start, or 0.
std::size_t well_formed(std::string_view s) {
  const auto at = [&](std::size_t i) {
    return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u;
  };
  const auto tail = [&](std::size_t i) { return at(i) >= 0x80 && at(i) <= 0xBF; };
  const auto in = [&](unsigned low, unsigned high) { return at(1) >= low && at(1) <= high; };
  const unsigned b = at(0);
  if (b <= 0x7F) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b == 0xE0) return in(0xA0, 0xBF) && tail(2) ? 3 : 0;
  if (b == 0xED) return in(0x80, 0x9F) && tail(2) ? 3 : 0;
  if (b >= 0xE1 && b <= 0xEF) return tail(1) && tail(2) ? 3 : 0;
  if (b == 0xF0) return in(0x90, 0xBF) && tail(2) && tail(3) ? 4 : 0;
  if (b == 0xF4) return in(0x80, 0x8F) && tail(2) && tail(3) ? 4 : 0;
  if (b >= 0xF1 && b <= 0xF3) return tail(1) && tail(2) && tail(3) ? 4 : 0;
  return 0;
}

// True if some bytes after `s` make it a well-formed character.
bool can_continue(std::string_view s) {
  for (const char second : {'\x80', '\x90', '\xA0', '\xBF'}) {
    std::string longer(s);
    if (longer.size() == 1) longer += second;
    while (longer.size() < 4) longer += '\x80';
    if (well_formed(longer) > s.size()) return true;
  }
  return false;
}

std::string naive_replace(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    std::size_t length = well_formed(s);
    if (length > 0) {
      out += s.substr(0, length);
    } else {
      out += "\uFFFD";
      // A maximal subpart: the longest start of a character, or one byte.
      length = 1;
      while (length < s.size() && length < 3 && can_continue(s.substr(0, length + 1))) ++length;
    }
    s.remove_prefix(length);
  }
  return out;
}

std::vector<std::string> stream(const std::vector<std::string>& pieces) {
  Utf8Stream stream;
  std::vector<std::string> deltas;
  for (const auto& piece : pieces) deltas.push_back(stream.feed(piece));
  deltas.push_back(stream.finish());
  return deltas;
}

}  // namespace

TEST_CASE("an emoji that comes byte by byte is one delta") {
  CHECK(stream({"hi", "\xF0", "\x9F", "\x98", "\x80"}) ==
        std::vector<std::string>{"hi", "", "", "", "\U0001F600", ""});
}

TEST_CASE("a character cut off by the end is one replacement character") {
  CHECK(stream({"a", "\xF0\x9F\x98"}) == std::vector<std::string>{"a", "", "\uFFFD"});
  CHECK(stream({"foo ", "\xF0\x9F", "\xA4\x97", " bar", "\xF0\x9F"}) ==
        std::vector<std::string>{"foo ", "", "\U0001F917", " bar", "", "\uFFFD"});
}

TEST_CASE("overlong forms and surrogates are replaced part by part") {
  CHECK(replace_ill_formed("\xC0\x80") == "\uFFFD\uFFFD");
  CHECK(replace_ill_formed("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK(replace_ill_formed("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(replace_ill_formed("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  CHECK(replace_ill_formed("") == "");
}

TEST_CASE("NUL bytes pass through") {
  const std::string text("a\0b\0", 4);
  CHECK(replace_ill_formed(text) == text);
}

TEST_CASE("a stream can be used again after its end") {
  Utf8Stream stream;
  CHECK(stream.feed("\xE2\x82") == "");
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.finish() == "");
  CHECK(stream.feed("\xAC") == "\uFFFD");
}

TEST_CASE("any split of the bytes gives the text of the whole") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string bytes(
      "\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1"
      "\xF4\xF5\xFF",
      22);
  for (int round = 0; round < 20000; ++round) {
    std::string whole;
    for (int n = static_cast<int>(random() % 12); n > 0; --n)
      whole += bytes[random() % bytes.size()];
    const std::string expected = naive_replace(whole);
    REQUIRE(replace_ill_formed(whole) == expected);
    Utf8Stream stream;
    std::string joined;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t count = 1 + random() % 4;
      const std::string delta = stream.feed(std::string_view(whole).substr(at, count));
      REQUIRE(naive_replace(delta) == delta);  // every delta is whole characters
      joined += delta;
      at += count;
    }
    REQUIRE(joined + stream.finish() == expected);
  }
}

}  // namespace quire::text
