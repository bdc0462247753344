#pragma once

#include <arm_neon.h>

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_unroll.h"

// AArch64 NEON: what the products have in common. A tile is a panel, four vectors of rows, by a few
// tokens. Lanes are rows.

namespace quire::cpu {

void multiply_neon_integer(const MatmulArgs& args);
void multiply_neon_expanded(const MatmulArgs& args);
void multiply_neon_plain(const MatmulArgs& args);

namespace {

#define LAMBDA QUIRE_ALWAYS_INLINE

constexpr int kLanes = 4;
constexpr int kVectors = 4;  // of a panel's 16 rows
constexpr int kRows = kLanes * kVectors;

template <int tokens>
using Sums = float32x4_t[kVectors][tokens];

template <int tokens>
inline void load_sums(const MatmulArgs& args, const float* output, int rows, Sums<tokens>& sums) {
  unroll<tokens>([&](auto t) LAMBDA {
    float from[kRows] = {};
    if (args.resume) {
      for (int row = 0; row < rows; ++row) from[row] = output[t * args.output_stride + row];
    }
    unroll<kVectors>([&](auto v) LAMBDA { sums[v][t] = vld1q_f32(from + v * kLanes); });
  });
}

template <int tokens>
inline void store_sums(const MatmulArgs& args, const float* bias, int rows,
                       const Sums<tokens>& sums, float* output) {
  unroll<tokens>([&](auto t) LAMBDA {
    float to[kRows];
    unroll<kVectors>([&](auto v) LAMBDA { vst1q_f32(to + v * kLanes, sums[v][t]); });
    for (int row = 0; row < rows; ++row) {
      output[t * args.output_stride + row] = bias ? to[row] + bias[row] : to[row];
    }
  });
}

// A Product has `kTokens`, the most tokens of a tile, and add<tokens>(args, panel, first_token,
// sums), which adds all columns to the sums of a tile.
template <class Product, int tokens>
void multiply_tile(const MatmulArgs& args, std::int64_t index, int first_token) {
  const std::int64_t first_row = index * kRows;
  const std::byte* panel = args.panels + static_cast<std::size_t>(index) * args.panel_bytes;
  const int rows = args.rows - first_row < kRows ? static_cast<int>(args.rows - first_row) : kRows;
  float* output = args.output + first_token * args.output_stride + first_row;
  Sums<tokens> sums;
  load_sums<tokens>(args, output, rows, sums);
  Product::template add<tokens>(args, panel, first_token, sums);
  store_sums<tokens>(args, args.bias ? args.bias + first_row : nullptr, rows, sums, output);
}

using TileFunction = void (*)(const MatmulArgs& args, std::int64_t index, int first_token);

template <class Product, int... counts>
void multiply_all(const MatmulArgs& args, std::integer_sequence<int, counts...>) {
  static constexpr TileFunction kTiles[] = {multiply_tile<Product, counts + 1>...};
  for (std::int64_t panel = args.first_panel; panel < args.last_panel; ++panel) {
    for (int first = 0; first < args.tokens; first += Product::kTokens) {
      const int left = args.tokens - first;
      kTiles[(left < Product::kTokens ? left : Product::kTokens) - 1](args, panel, first);
    }
  }
}

template <class Product>
void multiply_all(const MatmulArgs& args) {
  multiply_all<Product>(args, std::make_integer_sequence<int, Product::kTokens>());
}

}  // namespace
}  // namespace quire::cpu
