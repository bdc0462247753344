#include "base/hash.h"

#include <array>
#include <random>
#include <string>
#include <string_view>

#include "base/hash_blocks.h"
#include "catch.h"

using namespace quire;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hex(const Digest& digest) {
  std::string out;
  for (std::uint8_t b : digest) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

std::string sha256(std::string_view text) {
  return hex(Sha256().update(bytes_of(text)).finish());
}

}  // namespace

// FIPS 180-4 example values (NIST CSRC, SHA256.pdf, and the million 'a' of FIPS 180-2 B.3).
TEST_CASE("SHA-256 gives the published digests") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes are split, at every length around a block") {
  for (std::size_t length = 0; length <= 130; ++length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i % 26);
    const std::string whole = sha256(text);
    for (std::size_t cut = 0; cut <= length; cut += 7) {
      Sha256 hash;
      hash.update(bytes_of(text.substr(0, cut))).update({}).update(bytes_of(text.substr(cut)));
      REQUIRE(hex(hash.finish()) == whole);
    }
  }
}

TEST_CASE("a value is hashed as its bytes") {
  const std::uint32_t value = 0x64636261;  // "abcd" in memory
  CHECK(hex(Sha256().update_value(value).finish()) == sha256("abcd"));
}

TEST_CASE("the instructions of the processor compress blocks like the plain code") {
  std::mt19937 random(11);
  for (std::size_t count = 0; count < 5; ++count) {
    std::vector<std::uint8_t> blocks(64 * count);
    for (std::uint8_t& byte : blocks) byte = static_cast<std::uint8_t>(random());
    std::array<std::uint32_t, 8> plain;
    for (std::uint32_t& word : plain) word = static_cast<std::uint32_t>(random());
    std::array<std::uint32_t, 8> chosen = plain;
    sha256_blocks_plain(plain.data(), blocks.data(), count);
    choose_sha256_blocks()(chosen.data(), blocks.data(), count);
    CHECK(plain == chosen);
  }
}
