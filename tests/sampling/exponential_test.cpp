#include "sampling/exponential.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.h"

namespace quire::sampling {
namespace {

TEST_CASE("exponential is within 3e-7 of the exact value and never above 1") {
  double worst = 0;
  float largest = 0;
  for (int i = 0; i <= 290'000; ++i) {
    const float x = static_cast<float>(-i * 3e-4);
    const double exact = std::exp(double{x});
    worst = std::max(worst, std::abs(exponential(x) - exact) / exact);
    largest = std::max(largest, exponential(x));
  }
  CHECK(worst < 3e-7);
  CHECK(largest == 1.0f);
}

TEST_CASE("exponential of 0 is 1 and of very negative numbers 0") {
  CHECK(exponential(0.0f) == 1.0f);
  CHECK(exponential(-0.0f) == 1.0f);
  CHECK(exponential(-88.0f) == 0.0f);
  CHECK(exponential(-1e30f) == 0.0f);
  CHECK(exponential(-std::numeric_limits<float>::infinity()) == 0.0f);
}

}  // namespace
}  // namespace quire::sampling
