#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cuda_fp16.h>

#include "attention/kv_view.h"

namespace quire::test {

inline std::uint16_t bfloat16_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bfloat16(std::uint16_t half) {
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// FP8 formats for deep learning, Micikevicius et al. 2022: sign, 4 bits of exponent with bias 7, 3
// of fraction; the largest number is 448.
inline double from_e4m3(std::uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if ((code & 127) == 127) return NAN;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return code & 128 ? -size : size;
}
// The nearest, of two the even one; 448 for all beyond.
inline std::uint8_t e4m3_code(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  exponent = std::max(exponent - 1, -6);
  double eighths = std::nearbyint(std::ldexp(std::fabs(x), 3 - exponent));
  if (eighths == 16) {
    eighths = 8;
    ++exponent;
  }
  const int code =
      eighths < 8 ? static_cast<int>(eighths) : 8 * (exponent + 7) + static_cast<int>(eighths) - 8;
  return static_cast<std::uint8_t>(std::min(code, 126) | (std::signbit(x) ? 128 : 0));
}

// Where a token's dimension lies among the bytes of a head's fp8 values in a page.
inline std::size_t fp8_value_place(int token, int dimension, int head_size) {
  const int in_box = token % 16;
  return static_cast<std::size_t>(token / 16 * head_size + dimension) * 16 + in_box % 8 / 2 * 4 +
         in_box / 8 * 2 + in_box % 2;
}

// A scale for fp8, `first` being kFp8KeyScale or kFp8ValueScale: mostly as write_kv has it, of some
// rows twice that, of some any number.
inline float stored_fp8_scale(const std::vector<float>& row, float least, int first) {
  if (row[1] > 2.5f) return least;
  const float steps = std::ceil((std::log2(least) - first) / cuda::kFp8ScaleStep);
  return std::exp2(cuda::kFp8ScaleStep * steps + first) * (row[0] > 2.5f ? 2 : 1);
}

// Puts a token's keys (head < kv_heads) or values (the heads after them) into a layer's slab of a
// page, and adds what the slab then says to `stored`.
inline void store_token(const cuda::KvView& kv, std::uint8_t* slab, int head, int token,
                        const std::vector<float>& row, std::vector<double>& stored) {
  const std::size_t size = row.size();
  const std::size_t place = static_cast<std::size_t>(head) * kv.page_size + token;
  const std::size_t tokens = static_cast<std::size_t>(2) * kv.kv_heads * kv.page_size;
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  float scale = largest / (kv.type == KvType::int8 ? 127 : 448);
  if (kv.type == KvType::fp8) {
    scale = stored_fp8_scale(row, scale,
                             head < kv.kv_heads ? cuda::kFp8KeyScale : cuda::kFp8ValueScale);
  }
  if (kv.type == KvType::int8 || kv.type == KvType::fp8) {
    std::memcpy(slab + tokens * size + place * 4, &scale, 4);
  }
  for (std::size_t i = 0; i < size; ++i) {
    switch (kv.type) {
      case KvType::int8: {
        const int q = static_cast<int>(std::lround(row[i] / scale));
        slab[place * size + i] = static_cast<std::uint8_t>(q);
        stored.push_back(static_cast<double>(q) * scale);
        break;
      }
      case KvType::fp8: {
        const std::uint8_t code = e4m3_code(row[i] / scale);
        const std::size_t of_head = static_cast<std::size_t>(head) * kv.page_size * size;
        const std::size_t at = head < kv.kv_heads
                                   ? token * size + i
                                   : fp8_value_place(token, static_cast<int>(i), kv.head_size);
        slab[of_head + at] = code;
        stored.push_back(from_e4m3(code) * scale);
        break;
      }
      case KvType::f16: {
        const __half half = __float2half(row[i]);
        std::memcpy(slab + (place * size + i) * 2, &half, 2);
        stored.push_back(__half2float(half));
        break;
      }
      default: {
        const std::uint16_t bits = bfloat16_bits(row[i]);
        std::memcpy(slab + (place * size + i) * 2, &bits, 2);
        stored.push_back(from_bfloat16(bits));
      }
    }
  }
}

}  // namespace quire::test
