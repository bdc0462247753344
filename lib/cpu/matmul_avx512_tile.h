#pragma once

#include <immintrin.h>

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_strips.h"
#include "cpu/matmul_unroll.h"

// AVX-512 with VNNI: what the products have in common. A tile is two panels (32 rows) by a few
// tokens; its sums stay in registers over all columns. Lanes are rows. Only for files compiled for
// AVX-512.

namespace quire::cpu {

void multiply_avx512_integer(const MatmulArgs& args);
void multiply_avx512_expanded(const MatmulArgs& args);
void multiply_avx512_plain(const MatmulArgs& args);

namespace {

#define LAMBDA QUIRE_ALWAYS_INLINE

constexpr int kRows = 16;   // lanes
constexpr int kPanels = 2;  // of a tile; 1 where the weights are read for one or two tokens only

template <int panels, int tokens>
using Sums = __m512[panels][tokens];

// Where a tile reads its weights, and what it fetches into a cache meanwhile.
struct Panels {
  const std::byte* at[kPanels];
  const std::byte* ahead[kPanels];  // null: nothing
  const float* scales;              // of both panels, as the Product's Repeated expands them
};

// Fetches into the second-level cache, for a tile of one panel into the first.
template <int panels, int bytes>
QUIRE_ALWAYS_INLINE inline void fetch(const std::byte* from) {
  unroll<(bytes + 63) / 64>([&](auto line) LAMBDA {
    _mm_prefetch(reinterpret_cast<const char*>(from + 64 * line),
                 panels == 1 ? _MM_HINT_T0 : _MM_HINT_T1);
  });
}

// Where the two panels of a tile are and which of their rows exist. A last odd panel is both panels
// of its tile, the second one without rows.
struct TileRows {
  Panels panels;
  std::int64_t first_row[kPanels];
  __mmask16 mask[kPanels];
};

inline TileRows tile_rows(const MatmulArgs& args, std::int64_t panel) {
  TileRows tile;
  for (int p = 0; p < kPanels; ++p) {
    const bool exists = panel + p < args.last_panel;
    const std::int64_t index = exists ? panel + p : panel;
    tile.panels.at[p] = args.panels + static_cast<std::size_t>(index) * args.panel_bytes;
    tile.first_row[p] = index * kRows;
    const std::int64_t rows = exists ? args.rows - index * kRows : 0;
    tile.mask[p] = static_cast<__mmask16>(rows >= kRows ? 0xffff : (1 << rows) - 1);
  }
  tile.panels.scales = nullptr;
  return tile;
}

// What pass `pass` of `passes` over a tile of two panels fetches: the panels of the next tile. Two
// passes share the work: the last two, so that little of it is pushed out again before it is used.
inline void set_ahead(const MatmulArgs& args, std::int64_t panel, int pass, int passes,
                      std::int64_t strip_bytes, TileRows& tile) {
  constexpr std::int64_t kLargeStrip = std::int64_t{128} << 10;  // more would not stay cached
  for (int p = 0; p < kPanels; ++p) {
    tile.panels.ahead[p] = nullptr;
    if (passes > 1 && pass != passes - kPanels + p) continue;
    if (strip_bytes > kLargeStrip) {
      tile.panels.ahead[p] = tile.panels.at[p] + 4096;
    } else if (panel + kPanels + p < args.last_panel) {
      tile.panels.ahead[p] = tile.panels.at[p] + kPanels * args.panel_bytes;
    }
  }
}

// A Product has
//   kTokens        the most tokens of a tile
//   kStreamTokens  up to which tiles have one panel, so that the weights are read in one go
//   the members of one of the activations and of one of the weights of matmul_strips.h
//   add<panels, tokens>(args, panels, first_token, sums), which adds all columns to a tile's sums
//   Repeated       the same Product for strips that more than two tiles of tokens use. If
//                  kScaleFloats > 0, it reads scales that its expand(args, panels, scales) has made
template <class Product, int panels, int tokens>
void multiply_tile(const MatmulArgs& args, const TileRows& tile, int first_token) {
  Sums<panels, tokens> sums;
  float* output = args.output + first_token * args.output_stride;
  unroll<tokens>([&](auto t) LAMBDA {
    unroll<panels>([&](auto p) LAMBDA {
      sums[p][t] = _mm512_setzero_ps();
      if (args.resume) {
        sums[p][t] = _mm512_maskz_loadu_ps(tile.mask[p],
                                           output + t * args.output_stride + tile.first_row[p]);
      }
    });
  });
  Product::template add<panels, tokens>(args, tile.panels, first_token, sums);
  unroll<panels>([&](auto p) LAMBDA {
    const __m512 bias = args.bias
                            ? _mm512_maskz_loadu_ps(tile.mask[p], args.bias + tile.first_row[p])
                            : _mm512_setzero_ps();
    unroll<tokens>([&](auto t) LAMBDA {
      const __m512 sum = args.bias ? _mm512_add_ps(sums[p][t], bias) : sums[p][t];
      _mm512_mask_storeu_ps(output + t * args.output_stride + tile.first_row[p], tile.mask[p], sum);
    });
  });
}

using TileFunction = void (*)(const MatmulArgs& args, const TileRows& tile, int first_token);

// Few tokens: panel after panel, one stream through memory.
template <class Product, int... counts>
void stream_all(const MatmulArgs& args, std::integer_sequence<int, counts...>) {
  static constexpr TileFunction kTiles[] = {multiply_tile<Product, 1, counts + 1>...};
  constexpr int kDistance = 4096;  // bytes that are fetched ahead, also over the end of a panel
  for (std::int64_t panel = args.first_panel; panel < args.last_panel; ++panel) {
    TileRows tile = tile_rows(args, panel);
    tile.panels.ahead[0] = tile.panels.at[0] + kDistance;
    kTiles[args.tokens - 1](args, tile, 0);
  }
}

// Tokens of the next of `tiles` that the tokens left are shared out over: full tiles, which are the
// fastest, and then two that share the rest.
constexpr int next_tile(int left, int tiles, int most) {
  return tiles > 2 ? most : left / tiles;
}

// With three tiles or more none has fewer than half of the most tokens; see next_tile().
template <class Product, int tokens>
constexpr TileFunction repeated_tile() {
  if constexpr (2 * tokens >= Product::kTokens) return multiply_tile<Product, kPanels, tokens>;
  return nullptr;
}

// A strip of one tile's panels by the tiles of a span. Returns the token behind them.
template <class Product, int... counts>
int multiply_strip(const MatmulArgs& args, std::int64_t panel, std::int64_t offset,
                   const TileSpan& span, std::integer_sequence<int, counts...>) {
  using Repeated = typename Product::Repeated;
  static constexpr TileFunction kFewTiles[] = {multiply_tile<Product, kPanels, counts + 1>...};
  static constexpr TileFunction kManyTiles[] = {repeated_tile<Repeated, counts + 1>()...};
  const TileFunction* const tiles = span.count > 2 ? kManyTiles : kFewTiles;
  TileRows tile = tile_rows(args, panel);
  for (const std::byte*& at : tile.panels.at) at += offset;
  constexpr int kScaleFloats = Product::kScaleFloats * most_units<Product, kPanels>();
  alignas(64) float scales[kScaleFloats > 0 ? kScaleFloats : 1];
  if constexpr (kScaleFloats > 0) {
    if (span.count > 2) {
      Repeated::expand(args, tile.panels, scales);
      tile.panels.scales = scales;
    }
  }
  int token = span.first_token;
  for (int i = span.first; i < span.last; ++i) {
    const int count = next_tile(args.tokens - token, span.count - i, Product::kTokens);
    set_ahead(args, panel, i - span.first, span.last - span.first,
              Product::panel_bytes(args.columns), tile);
    tiles[count - 1](args, tile, token);
    token += count;
  }
  return token;
}

template <class Product>
void tile_all(const MatmulArgs& whole) {
  each_strip<Product, kPanels>(
      whole, [](const MatmulArgs& args, std::int64_t offset, const TileSpan& span) {
        int next = span.first_token;
        for (std::int64_t panel = args.first_panel; panel < args.last_panel; panel += kPanels) {
          next = multiply_strip<Product>(args, panel, offset, span,
                                         std::make_integer_sequence<int, Product::kTokens>());
        }
        return next;
      });
}

template <class Product>
void multiply_all(const MatmulArgs& args) {
  if constexpr (Product::kStreamTokens > 0) {
    if (args.tokens <= Product::kStreamTokens) {
      if (args.tokens > 0)
        stream_all<Product>(args, std::make_integer_sequence<int, Product::kStreamTokens>());
      return;
    }
  }
  tile_all<Product>(args);
}

}  // namespace
}  // namespace quire::cpu
