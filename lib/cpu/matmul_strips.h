#pragma once

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_unroll.h"
#include "cpu/packed_format.h"

// How a product of many tokens is cut so that what it reads stays in the second-level cache. A
// strip, the weights of a tile over some columns, is multiplied by all tokens of a block; the
// activations of the block for these columns stay cached from one strip to the next. Sums go on
// from strip to strip in the order of the columns, so that the cut changes no bit.

namespace quire::cpu {
namespace {

// The activations that a product reads: bytes of a token, and how to skip columns.
struct GroupActivations {
  static constexpr std::int64_t token_bytes(std::int64_t columns) {
    return (columns + kGroup - 1) / kGroup * static_cast<std::int64_t>(sizeof(ActivationGroup));
  }
  static void skip(MatmulArgs& args, int columns) { args.groups += columns / kGroup; }
};
struct BfloatActivations {
  static constexpr std::int64_t token_bytes(std::int64_t columns) { return columns * 2; }
  static void skip(MatmulArgs& args, int columns) { args.first_bfloat_block += columns / kGroup; }
};
struct FloatActivations {
  static constexpr std::int64_t token_bytes(std::int64_t columns) { return columns * 4; }
  static void skip(MatmulArgs& args, int columns) { args.values += columns; }
};

// The bytes of so many columns of a panel; floats that a product expands from a unit of columns of
// a tile's panels.
template <class Format>
struct PackedWeights {
  static constexpr int kScaleFloats = 0;
  static constexpr std::int64_t panel_bytes(std::int64_t columns) {
    using Sizes = PackedSizes<Format>;
    return (columns + Sizes::kColumns - 1) / Sizes::kColumns * Sizes::kRecordBytes;
  }
};
template <int element_bytes>
struct PlainWeights {
  static constexpr int kScaleFloats = 0;
  static constexpr std::int64_t panel_bytes(std::int64_t columns) {
    return columns * 16 * element_bytes;
  }
};

struct Cut {
  int columns;  // of a strip
  int tiles;    // of a block of tokens
};

constexpr int kStripUnit = 256;  // columns: whole records of every type

// Units of the longest strip of a tile of `panels` panels.
template <class Product, int panels>
constexpr int most_units() {
  constexpr std::int64_t kStripBytes = std::int64_t{128} << 10;
  constexpr std::int64_t kUnitBytes = panels * Product::panel_bytes(kStripUnit) +
                                      Product::kTokens * Product::token_bytes(kStripUnit) +
                                      Product::kScaleFloats * 4;
  static_assert(kUnitBytes <= kStripBytes);
  return static_cast<int>(kStripBytes / kUnitBytes);
}

// `panels` of a tile. A strip and a block together fit a second-level cache of 1 MiB.
template <class Product, int panels>
Cut cut_of(const MatmulArgs& args) {
  constexpr int kUnit = kStripUnit;
  constexpr std::int64_t kBlockBytes = std::int64_t{384} << 10;
  constexpr int kMostUnits = most_units<Product, panels>();
  Cut cut{args.columns, 1};
  if (args.tokens > 2 * Product::kTokens) {  // fewer take the weights as they stream in
    const int units = (args.columns + kUnit - 1) / kUnit;
    const int strips = (units + kMostUnits - 1) / kMostUnits;
    cut.columns = (units + strips - 1) / strips * kUnit;
  }
  const std::int64_t tile_bytes = Product::kTokens * Product::token_bytes(cut.columns);
  if (tile_bytes < kBlockBytes) cut.tiles = static_cast<int>(kBlockBytes / tile_bytes);
  return cut;
}

// Tiles [first, last) of all `count` that the tokens are shared out over; the first of them
// begins at `first_token`.
struct TileSpan {
  int first;
  int last;
  int count;
  int first_token;
};

// Calls multiply(args, offset, span) for every strip: the args of its columns, and where in a panel
// these begin. It multiplies all panels and returns the token behind the span.
template <class Product, int panels, class MultiplyStrip>
QUIRE_ALWAYS_INLINE inline void each_strip(const MatmulArgs& whole, MultiplyStrip&& multiply) {
  const Cut cut = cut_of<Product, panels>(whole);
  TileSpan span{0, 0, (whole.tokens + Product::kTokens - 1) / Product::kTokens, 0};
  for (; span.first < span.count; span.first = span.last) {
    span.last = span.first + cut.tiles < span.count ? span.first + cut.tiles : span.count;
    int next_token = span.first_token;
    MatmulArgs args = whole;
    for (int column = 0; column < whole.columns; column += cut.columns) {
      const int left = whole.columns - column;
      args.columns = left < cut.columns ? left : cut.columns;
      args.resume = whole.resume || column > 0;
      args.bias = left > cut.columns ? nullptr : whole.bias;
      next_token = multiply(args, Product::panel_bytes(column), span);
      Product::skip(args, args.columns);
    }
    span.first_token = next_token;
  }
}

}  // namespace
}  // namespace quire::cpu
