#include "sampling/philox.h"

#include <set>

#include "catch.h"

namespace quire::sampling {
namespace {

using Words = std::array<std::uint32_t, 4>;

// From the known-answer file of Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST_CASE("philox4x32-10 gives the published words") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a uniform number is the high 53 bits of two words") {
  const std::uint64_t words = 0x6627e8d5e169c58d;
  CHECK(uniform(0, 0, 0) == static_cast<double>(words >> 11) / 9007199254740992.0);
}

TEST_CASE("seed, choice and position each change the number") {
  std::set<double> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 32, ~0ull}) {
    for (std::uint32_t choice = 0; choice < 8; ++choice) {
      for (std::uint32_t position = 0; position < 64; ++position) {
        const double u = uniform(seed, choice, position);
        if (u < 0 || u >= 1) FAIL("not in [0, 1): " << u);
        seen.insert(u);
      }
    }
  }
  CHECK(seen.size() == 4 * 8 * 64);
}

}  // namespace
}  // namespace quire::sampling
