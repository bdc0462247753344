#pragma once

#include <immintrin.h>

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_strips.h"
#include "cpu/matmul_unroll.h"

// AVX2 with FMA and F16C: what the products have in common. A tile is a panel, two vectors of rows,
// by a few tokens. Lanes are rows. Only for files compiled for AVX2.

namespace quire::cpu {

void multiply_avx2_integer(const MatmulArgs& args);
void multiply_avx2_expanded(const MatmulArgs& args);
void multiply_avx2_plain(const MatmulArgs& args);

namespace {

#define LAMBDA QUIRE_ALWAYS_INLINE

constexpr int kLanes = 8;
constexpr int kHalves = 2;  // vectors of a panel's 16 rows

template <int tokens>
using Sums = __m256[kHalves][tokens];

// Where a tile reads its weights, and the panel after it, which it fetches into the second-level
// cache meanwhile (null: nothing).
struct Panel {
  const std::byte* at;
  const std::byte* ahead;
};

template <int bytes>
QUIRE_ALWAYS_INLINE inline void fetch(const std::byte* from) {
  unroll<(bytes + 63) / 64>([&](auto line) LAMBDA {
    _mm_prefetch(reinterpret_cast<const char*>(from + 64 * line), _MM_HINT_T1);
  });
}

// Lanes of a half that belong to existing rows, as vmaskmov wants them.
inline __m256i lane_mask(std::int64_t rows) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const int count = rows < 0 ? 0 : rows > kLanes ? kLanes : static_cast<int>(rows);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
}

// A Product has `kTokens`, the most tokens of a tile, add<tokens>(args, panels, first_token, sums),
// which adds all columns to the sums of a tile, and the members of one of the activations and of
// one of the weights of matmul_strips.h.
template <class Product, int tokens>
void multiply_tile(const MatmulArgs& args, std::int64_t index, std::int64_t offset, bool fetch_next,
                   int first_token) {
  const std::int64_t first_row = index * kHalves * kLanes;
  const std::byte* at = args.panels + static_cast<std::size_t>(index) * args.panel_bytes + offset;
  const __m256i masks[kHalves] = {lane_mask(args.rows - first_row),
                                  lane_mask(args.rows - first_row - kLanes)};
  Sums<tokens> sums;
  float* output = args.output + first_token * args.output_stride + first_row;
  unroll<tokens>([&](auto t) LAMBDA {
    unroll<kHalves>([&](auto half) LAMBDA {
      sums[half][t] = _mm256_setzero_ps();
      if (args.resume) {
        sums[half][t] =
            _mm256_maskload_ps(output + t * args.output_stride + half * kLanes, masks[half]);
      }
    });
  });
  Product::template add<tokens>(args, {at, fetch_next ? at + args.panel_bytes : nullptr},
                                first_token, sums);
  unroll<kHalves>([&](auto half) LAMBDA {
    const __m256 bias = args.bias
                            ? _mm256_maskload_ps(args.bias + first_row + half * kLanes, masks[half])
                            : _mm256_setzero_ps();
    unroll<tokens>([&](auto t) LAMBDA {
      const __m256 sum = args.bias ? _mm256_add_ps(sums[half][t], bias) : sums[half][t];
      _mm256_maskstore_ps(output + t * args.output_stride + half * kLanes, masks[half], sum);
    });
  });
}

using TileFunction = void (*)(const MatmulArgs& args, std::int64_t index, std::int64_t offset,
                              bool fetch_next, int first_token);

template <class Product, int... counts>
void multiply_all(const MatmulArgs& whole, std::integer_sequence<int, counts...>) {
  static constexpr TileFunction kTiles[] = {multiply_tile<Product, counts + 1>...};
  each_strip<Product, 1>(
      whole, [](const MatmulArgs& args, std::int64_t offset, const TileSpan& span) {
        int token = span.first_token;
        for (std::int64_t panel = args.first_panel; panel < args.last_panel; ++panel) {
          token = span.first_token;
          for (int i = span.first; i < span.last; ++i) {
            const int count = (args.tokens - token) / (span.count - i);
            const bool fetch_next = i == span.last - 1 && panel + 1 < args.last_panel;
            kTiles[count - 1](args, panel, offset, fetch_next, token);
            token += count;
          }
        }
        return token;
      });
}

template <class Product>
void multiply_all(const MatmulArgs& args) {
  multiply_all<Product>(args, std::make_integer_sequence<int, Product::kTokens>());
}

}  // namespace
}  // namespace quire::cpu
