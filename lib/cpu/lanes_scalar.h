#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/blocks.h"

namespace quire::cpu {

// Sixteen float lanes in plain C++. Every instruction set offers the same sixteen lanes with the
// same rounding and the same order of reductions, so all tables of kernels give equal bits.
struct ScalarLanes {
  struct Float {
    float lane[16];
  };
  struct Integer {
    std::int32_t lane[16];
  };
  // Limits of a register tile of the attention products: rows, rows x vectors beyond one vector,
  // and vectors.
  static constexpr int kTileRows = 2;
  static constexpr int kAccumulators = 2;
  static constexpr int kTileVectors = 1;

  template <class Body>
  static Float each(Body body) {
    Float r;
    for (int i = 0; i < 16; ++i) r.lane[i] = body(i);
    return r;
  }

  static Float load(const float* from) {
    return each([&](int i) { return from[i]; });
  }
  static Float load(const float* from, int count) {  // the rest is zero
    return each([&](int i) { return i < count ? from[i] : 0.0f; });
  }
  static void store(float* to, Float a) { std::memcpy(to, a.lane, sizeof a.lane); }
  static void store(float* to, Float a, int count) {
    std::memcpy(to, a.lane, sizeof(float) * static_cast<std::size_t>(count));
  }
  static Float set(float value) {
    return each([&](int) { return value; });
  }
  static Float add(Float a, Float b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Float subtract(Float a, Float b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Float multiply(Float a, Float b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Float divide(Float a, Float b) {
    return each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  static Float fma(Float a, Float b, Float c) {  // a * b + c
    return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  // a > b ? a : b, and a < b ? a : b: a NaN in either gives b.
  static Float maximum(Float a, Float b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Float minimum(Float a, Float b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Float absolute(Float a) {
    return each([&](int i) { return std::fabs(a.lane[i]); });
  }
  // a < b ? yes : no
  static Float select_less(Float a, Float b, Float yes, Float no) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]; });
  }
  // yes in lanes [first, last), no elsewhere
  static Float select_range(int first, int last, Float yes, Float no) {
    return each([&](int i) { return i >= first && i < last ? yes.lane[i] : no.lane[i]; });
  }
  // 2^n, where n was added to the constant 1.5 * 2^23 to give `shifted`.
  static Float power_of_two(Float shifted) {
    return each([&](int i) {
      std::uint32_t bits;
      std::memcpy(&bits, &shifted.lane[i], 4);
      bits = (bits << 23) + 0x3f800000u;
      float r;
      std::memcpy(&r, &bits, 4);
      return r;
    });
  }
  // Lanes i and i + 8, then i + 4, i + 2, i + 1.
  static float sum(Float a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.lane[i] = a.lane[i] + a.lane[i + half];
    }
    return a.lane[0];
  }
  static float largest(Float a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) {
        a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
      }
    }
    return a.lane[0];
  }
  static float first(Float a) { return a.lane[0]; }

  static Float load_half(const std::uint16_t* from, int count) {
    return each([&](int i) { return i < count ? half_to_float(from[i]) : 0.0f; });
  }
  static Float load_bfloat16(const std::uint16_t* from, int count) {
    return each([&](int i) { return i < count ? bfloat16_to_float(from[i]) : 0.0f; });
  }
  static Float load_int8(const std::int8_t* from, int count) {
    return each([&](int i) { return i < count ? static_cast<float>(from[i]) : 0.0f; });
  }
  static Float load_half(const std::uint16_t* from) { return load_half(from, 16); }
  static Float load_bfloat16(const std::uint16_t* from) { return load_bfloat16(from, 16); }
  static Float load_int8(const std::int8_t* from) { return load_int8(from, 16); }
  static void store_half(std::uint16_t* to, Float a) {
    for (int i = 0; i < 16; ++i) to[i] = float_to_half(a.lane[i]);
  }
  static void store_bfloat16(std::uint16_t* to, Float a) {
    for (int i = 0; i < 16; ++i) to[i] = float_to_bfloat16(a.lane[i]);
  }
  // Nearest integer, ties to even; the values are within [-127, 127]; NaN gives 0.
  static void store_int8(std::int8_t* to, Float a) {
    for (int i = 0; i < 16; ++i) {
      to[i] = a.lane[i] == a.lane[i] ? static_cast<std::int8_t>(std::nearbyint(a.lane[i])) : 0;
    }
  }
};

}  // namespace quire::cpu
