#include "cpu/matmul_scalar_bfloat.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/packed_format.h"
#include "tensor/blocks.h"

namespace quire::cpu {
namespace {

constexpr int kRows = 16;

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

float fused(float a, float b, float c) {
  return flushed(std::fma(a, b, c));
}

// Weights [32][16] of 32 columns of a panel of pairs.
void load_weights(const std::byte* pairs, float* to) {
  for (int column = 0; column < kGroup; ++column) {
    for (int row = 0; row < kRows; ++row) {
      std::uint16_t bits;
      std::memcpy(&bits, pairs + 2 * ((column / 2 * kRows + row) * 2 + column % 2), sizeof bits);
      to[column * kRows + row] = flushed(bfloat16_to_float(bits));
    }
  }
}

}  // namespace

void add_bfloat_scalar(const MatmulArgs& args, const std::byte* panel, int token, float* sums) {
  const float* values = args.values + token * args.value_stride;
  float weights[kGroup * kRows];
  for (int first = 0; first < args.columns; first += kGroup) {
    load_weights(panel + std::int64_t{first} * kRows * 2, weights);
    float x[kGroup] = {};
    for (int i = 0; i < kGroup && first + i < args.columns; ++i) {
      x[i] = flushed(bfloat16_to_float(float_to_bfloat16(values[first + i])));
    }
    for (int row = 0; row < kRows; ++row) {
      const float* w = weights + row;
      float even = 0, odd = 0;
      for (int i = 0; i < kGroup; i += 2) {
        if (args.form == MatmulForm::bfloat_pairs) {
          sums[row] = fused(w[(i + 1) * kRows], x[i + 1], sums[row]);
          sums[row] = fused(w[i * kRows], x[i], sums[row]);
        } else {
          even = fused(w[i * kRows], x[i], even);
          odd = fused(w[(i + 1) * kRows], x[i + 1], odd);
        }
      }
      if (args.form == MatmulForm::bfloat_tiles)
        sums[row] = flushed(sums[row] + flushed(even + odd));
    }
  }
}

}  // namespace quire::cpu
