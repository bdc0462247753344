#pragma once

#include <bit>
#include <cstdint>

namespace quire::sampling {

// e^x for x <= 0, within 2 units in the last place; 0 below -87. Plain arithmetic without branches
// or library calls, so that compilers vectorise it and every machine gives the same bits; constexpr
// also makes it callable on a GPU.
constexpr float exponential(float x) {
  constexpr float kRounder = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * 0x1.715476p0f + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;  // x - n ln 2, ln 2 in two parts
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::uint32_t exponent =
      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRounder) + 127) << 23;
  const std::uint32_t value = std::bit_cast<std::uint32_t>(p * std::bit_cast<float>(exponent));
  return std::bit_cast<float>(value & (0 - static_cast<std::uint32_t>(x >= -87.0f)));
}

}  // namespace quire::sampling
