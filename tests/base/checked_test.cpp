#include "base/checked.h"

#include <cstdint>
#include <limits>

#include "catch.h"

using namespace quire;

TEST_CASE("checked arithmetic has no value where the exact result does not fit") {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  CHECK(checked_add<std::uint64_t>(kMost - 1, 1) == kMost);
  CHECK_FALSE(checked_add<std::uint64_t>(kMost, 1));
  CHECK(checked_multiply<std::uint64_t>(std::uint64_t{1} << 32, 0xffffffffu) ==
        0xffffffff00000000u);
  CHECK_FALSE(checked_multiply<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
  CHECK_FALSE(checked_add<std::int32_t>(INT32_MIN, -1));
  CHECK(checked_multiply<std::int64_t>(-3, 7) == -21);
}

TEST_CASE("a CheckedSize stays failed after an overflow") {
  CheckedSize size = std::numeric_limits<std::uint64_t>::max();
  CHECK(size.get() == SIZE_MAX);
  size += 1;  // wraps to 0
  CHECK_FALSE(size.get());
  size *= 0;
  CHECK_FALSE(size.get());
  CHECK_FALSE((CheckedSize(2) + size).get());
  CHECK_FALSE((size * CheckedSize(2)).get());
  CHECK((CheckedSize(6) * CheckedSize(7) + CheckedSize(8)).get() == 50u);
  // The product of 2^63 - 1 and 2 fits 64 bits, four times it does not.
  CHECK((CheckedSize(INT64_MAX) * CheckedSize(2)).get() == SIZE_MAX - 1);
  CHECK_FALSE((CheckedSize(INT64_MAX) * CheckedSize(2) * CheckedSize(4)).get());
}

TEST_CASE("rounding up") {
  CHECK(ceil_div(0, 4) == 0);
  CHECK(ceil_div(1, 4) == 1);
  CHECK(ceil_div(8, 4) == 2);
  CHECK(round_up(9u, 8u) == 16u);
  CHECK(round_up(16u, 8u) == 16u);
}
