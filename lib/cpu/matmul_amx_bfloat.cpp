#include <immintrin.h>

#include "cpu/matmul_amx_tile.h"
#include "cpu/matmul_avx512_tile.h"

// BF16 weights and activations on AMX: tdpbf16ps on 32 x 32 outputs, whose sums stay in tiles over
// all columns. For a few tokens the same operations in the same order on vectors.

namespace quire::cpu {
namespace {

constexpr int kVectorTokens = 4;  // the most that are multiplied without tiles
constexpr int kPairs = 16;        // of columns, of one tile product
constexpr int kTileBytes = kPairs * 64;

struct TileOrderProduct : BfloatActivations, PlainWeights<2> {
  using Repeated = TileOrderProduct;
  static constexpr int kTokens = kVectorTokens;
  static constexpr int kStreamTokens = 0;

  template <int panels, int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, Panels from, int first_token,
                                      Sums<panels, tokens>& sums) {
    const std::int64_t block = 2 * kPairs * args.tokens;
    const std::uint16_t* values =
        args.bfloats + args.first_bfloat_block * block + first_token * 2 * kPairs;
    for (int column = 0; column < args.columns; column += 2 * kPairs, values += block) {
      Sums<panels, tokens> even, odd;
      unroll<tokens>([&](auto t) LAMBDA {
        unroll<panels>([&](auto p) LAMBDA { even[p][t] = odd[p][t] = _mm512_setzero_ps(); });
      });
      for (int pair = 0; pair < kPairs; ++pair) {
        add_pair<panels, tokens>(from, pair, values + 2 * pair, even, odd);
      }
      unroll<tokens>([&](auto t) LAMBDA {
        unroll<panels>([&](auto p) LAMBDA {
          sums[p][t] = _mm512_add_ps(sums[p][t], _mm512_add_ps(even[p][t], odd[p][t]));
        });
      });
      unroll<panels>([&](auto p) LAMBDA {
        from.at[p] += kTileBytes;
        if (from.ahead[p]) from.ahead[p] += kTileBytes;
      });
    }
  }

 private:
  template <int panels, int tokens>
  QUIRE_ALWAYS_INLINE static void add_pair(const Panels& from, int pair,
                                           const std::uint16_t* values, Sums<panels, tokens>& even,
                                           Sums<panels, tokens>& odd) {
    const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    __m512 weights[panels][2];
    unroll<panels>([&](auto p) LAMBDA {
      if (from.ahead[p]) fetch<panels, 1>(from.ahead[p] + 64 * pair);
      const __m512i both = _mm512_loadu_si512(from.at[p] + 64 * pair);
      weights[p][0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
      weights[p][1] = _mm512_castsi512_ps(_mm512_and_si512(both, high_half));
    });
    unroll<tokens>([&](auto t) LAMBDA {
      std::uint32_t two;
      __builtin_memcpy(&two, values + t * 2 * kPairs, sizeof two);
      const __m512i both = _mm512_set1_epi32(static_cast<int>(two));
      const __m512 first = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
      const __m512 second = _mm512_castsi512_ps(_mm512_and_si512(both, high_half));
      unroll<panels>([&](auto p) LAMBDA {
        even[p][t] = _mm512_fmadd_ps(weights[p][0], first, even[p][t]);
        odd[p][t] = _mm512_fmadd_ps(weights[p][1], second, odd[p][t]);
      });
    });
  }
};

// Two panels, the second one perhaps without rows, by up to 32 tokens: tiles 0-3 are the sums, 4
// and 5 the activations, 6 and 7 the weights.
struct Outputs {
  float sums[2][2][kTileRows][kRows];  // [tokens / 16][panel]
};

void configure_for(int first_tokens, int second_tokens) {
  TileShapes shapes;
  for (int panel = 0; panel < 2; ++panel) {
    shapes.set(panel, first_tokens, 64);
    shapes.set(2 + panel, second_tokens > 0 ? second_tokens : 1, 64);
    shapes.set(6 + panel, kPairs, 64);
  }
  shapes.set(4, first_tokens, 64);
  shapes.set(5, second_tokens > 0 ? second_tokens : 1, 64);
  configure(shapes);
}

void multiply_tiles(const MatmulArgs& args, const TileRows& tile, int first_token, int tokens,
                    Outputs& outputs) {
  const std::int64_t first_block = 2 * kPairs * (tokens < kTileRows ? tokens : kTileRows);
  const std::int64_t second_block = tokens > kTileRows ? 2 * kPairs * (tokens - kTileRows) : 0;
  const std::uint16_t* first = args.bfloats + first_token * args.bfloat_stride;
  const std::uint16_t* second = first + kTileRows * args.bfloat_stride;
  first += args.first_bfloat_block * first_block;
  second += args.first_bfloat_block * second_block;
  const std::byte* weights0 = tile.panels.at[0];
  const std::byte* weights1 = tile.panels.at[1];
  finish_stores();
  _tile_loadd(0, outputs.sums[0][0], 64);
  _tile_loadd(1, outputs.sums[0][1], 64);
  _tile_loadd(2, outputs.sums[1][0], 64);
  _tile_loadd(3, outputs.sums[1][1], 64);
  for (int column = 0; column < args.columns; column += 2 * kPairs) {
    _tile_loadd(4, first, 64);
    _tile_loadd(6, weights0, 64);
    _tile_loadd(7, weights1, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (tokens > kTileRows) {
      _tile_loadd(5, second, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    first += first_block;
    second += second_block;
    weights0 += kTileBytes;
    weights1 += kTileBytes;
  }
  _tile_stored(0, outputs.sums[0][0], 64);
  _tile_stored(1, outputs.sums[0][1], 64);
  _tile_stored(2, outputs.sums[1][0], 64);
  _tile_stored(3, outputs.sums[1][1], 64);
}

void load_outputs(const MatmulArgs& args, const TileRows& tile, int first_token, int tokens,
                  Outputs& to) {
  for (int t = 0; t < 2 * kTileRows; ++t) {
    for (int p = 0; p < kPanels; ++p) {
      const float* from = args.output + (first_token + t) * args.output_stride + tile.first_row[p];
      const __mmask16 rows = args.resume && t < tokens ? tile.mask[p] : 0;
      _mm512_storeu_ps(to.sums[t / kTileRows][p][t % kTileRows],
                       rows ? _mm512_maskz_loadu_ps(rows, from) : _mm512_setzero_ps());
    }
  }
}

void store_outputs(const MatmulArgs& args, const TileRows& tile, int first_token, int tokens,
                   const Outputs& from) {
  for (int p = 0; p < kPanels; ++p) {
    const __m512 bias = args.bias
                            ? _mm512_maskz_loadu_ps(tile.mask[p], args.bias + tile.first_row[p])
                            : _mm512_setzero_ps();
    for (int t = 0; t < tokens; ++t) {
      const __m512 sum = _mm512_loadu_ps(from.sums[t / kTileRows][p][t % kTileRows]);
      _mm512_mask_storeu_ps(
          args.output + (first_token + t) * args.output_stride + tile.first_row[p], tile.mask[p],
          args.bias ? _mm512_add_ps(sum, bias) : sum);
    }
  }
}

void multiply_with_tiles(const MatmulArgs& args) {
  Outputs outputs;
  int configured = 0;
  for (std::int64_t panel = args.first_panel; panel < args.last_panel; panel += kPanels) {
    const TileRows tile = tile_rows(args, panel);
    for (int first = 0; first < args.tokens; first += 2 * kTileRows) {
      const int left = args.tokens - first;
      const int tokens = left < 2 * kTileRows ? left : 2 * kTileRows;
      if (tokens != configured) {
        configure_for(tokens < kTileRows ? tokens : kTileRows, tokens - kTileRows);
        configured = tokens;
      }
      load_outputs(args, tile, first, tokens, outputs);
      multiply_tiles(args, tile, first, tokens, outputs);
      store_outputs(args, tile, first, tokens, outputs);
    }
  }
}

// In parts of so many columns that the activations of 512 tokens stay in the second-level cache.
void multiply_parts(const MatmulArgs& args) {
  constexpr int kPart = 1024;
  for (int first = 0; first < args.columns; first += kPart) {
    MatmulArgs part = args;
    part.columns = args.columns - first < kPart ? args.columns - first : kPart;
    part.panels = args.panels + first / (2 * kPairs) * kTileBytes;
    part.first_bfloat_block = args.first_bfloat_block + first / (2 * kPairs);
    if (first > 0) part.resume = true;
    if (first + part.columns < args.columns) part.bias = nullptr;
    multiply_with_tiles(part);
  }
  _tile_release();
}

}  // namespace

void multiply_amx_bfloat(const MatmulArgs& args) {
  if (args.tokens > kVectorTokens) return multiply_parts(args);
  // As tile products do: numbers below the normal ones are 0.
  constexpr unsigned kFlush = 0x8040;
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | kFlush);
  multiply_all<TileOrderProduct>(args);
  _mm_setcsr(saved);
}

}  // namespace quire::cpu
