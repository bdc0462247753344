#include <immintrin.h>

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_unroll.h"
#include "cpu/packed_format.h"

// AVX-512 with VNNI. A tile is two panels (32 rows) by up to kTile tokens; its sums stay in
// registers over all columns. Lanes are rows. vpdpbusd multiplies the unsigned weight codes by four
// activation codes broadcast from memory; the offset of the codes is in the value that its sums
// begin with.

namespace quire::cpu {
namespace {

#define LAMBDA QUIRE_ALWAYS_INLINE

constexpr int kRows = 16;         // lanes
constexpr int kPanels = 2;        // of a tile
constexpr int kTile = 6;          // tokens of an integer tile
constexpr int kFloatTile = 8;     // tokens of a float tile
constexpr int kExpandedTile = 4;  // of one that expands its weights

template <int tokens>
using Sums = __m512[kPanels][tokens];

// Where a tile reads its weights, and what it fetches into the second-level cache meanwhile: the
// panels of the tile after it.
struct Panels {
  const std::byte* at[kPanels];
  const std::byte* ahead[kPanels];  // null: nothing
};

template <int bytes>
QUIRE_ALWAYS_INLINE inline void fetch(const std::byte* from) {
  unroll<(bytes + 63) / 64>([&](auto line) LAMBDA {
    _mm_prefetch(reinterpret_cast<const char*>(from + 64 * line), _MM_HINT_T1);
  });
}

QUIRE_ALWAYS_INLINE inline __m512i load_bytes(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

QUIRE_ALWAYS_INLINE inline __m512i load_table(const std::uint8_t* table) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// The unsigned codes of one quad of columns: byte 4 r + c is row r, column 4 quad + c.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m512i load_codes(const std::byte* group) {
  if constexpr (Format::kCodes == CodeForm::bytes) return load_bytes(group + kVectorBytes * quad);
  const __m512i pairs = load_bytes(group + kVectorBytes * (quad % 4));
  const __m512i low_bits = _mm512_set1_epi8(15);
  const __m512i codes = quad < 4 ? _mm512_and_si512(pairs, low_bits)
                                 : _mm512_and_si512(_mm512_srli_epi16(pairs, 4), low_bits);
  if constexpr (Format::kCodes == CodeForm::nibbles_1) {
    const __m512i bits = load_bytes(group + kVectorBytes * 4);
    const __m512i moved = quad <= 4 ? _mm512_slli_epi16(bits, 4 - (quad <= 4 ? quad : 4))
                                    : _mm512_srli_epi16(bits, quad <= 4 ? 0 : quad - 4);
    // codes | (moved & 16)
    return _mm512_ternarylogic_epi32(codes, moved, _mm512_set1_epi8(16), 0xf8);
  }
  if constexpr (Format::kCodes == CodeForm::nibbles_2) {
    const __m512i bits = load_bytes(group + kVectorBytes * (4 + quad / 4));
    constexpr int place = 2 * (quad % 4);
    const __m512i moved = place <= 4 ? _mm512_slli_epi16(bits, place <= 4 ? 4 - place : 0)
                                     : _mm512_srli_epi16(bits, place <= 4 ? 0 : place - 4);
    return _mm512_ternarylogic_epi32(codes, moved, _mm512_set1_epi8(48), 0xf8);
  }
  if constexpr (Format::kTable == CodeTable::iq4)
    return _mm512_shuffle_epi8(load_table(kIq4Codes), codes);
  if constexpr (Format::kTable == CodeTable::mxfp4)
    return _mm512_shuffle_epi8(load_table(kMxfp4Codes), codes);
  return codes;
}

QUIRE_ALWAYS_INLINE inline __m512 load_halves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

QUIRE_ALWAYS_INLINE inline __m512 load_bfloats(const std::byte* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

QUIRE_ALWAYS_INLINE inline __m128i load_factors(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

struct Scales {
  __m512 scale;
  __m512 minimum;  // to be added; only of types that have minimums
};

QUIRE_ALWAYS_INLINE inline __m512 negated(__m512 x) {
  return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

// Scales of the 16 rows for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline Scales load_scales(const std::byte* scales, int group) {
  if constexpr (Format::kScales == ScaleForm::half) {
    return {load_halves(scales + 32 * group), _mm512_setzero_ps()};
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return {load_bfloats(scales + 32 * group), _mm512_setzero_ps()};
  } else if constexpr (Format::kScales == ScaleForm::half_min) {
    return {load_halves(scales + 32 * group), load_halves(scales + 64 + 32 * group)};
  } else {
    const __m512 scale = load_halves(scales);
    const std::byte* factors = scales + 64;
    if constexpr (Format::kScales == ScaleForm::super) {
      const __m512i factor = _mm512_cvtepi8_epi32(load_factors(factors + 16 * group));
      return {_mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor)), _mm512_setzero_ps()};
    } else if constexpr (Format::kScales == ScaleForm::super_16) {
      const __m512i factor = _mm512_cvtepi8_epi32(load_factors(factors + 16 * (2 * group + part)));
      return {_mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor)), _mm512_setzero_ps()};
    } else {
      const __m512 minimum = negated(load_halves(scales + 32));
      __m512i factor, minimum_factor;
      if constexpr (Format::kScales == ScaleForm::super_min) {
        factor = _mm512_cvtepu8_epi32(load_factors(factors + 16 * group));
        minimum_factor = _mm512_cvtepu8_epi32(load_factors(factors + 128 + 16 * group));
      } else {
        const __m512i both = _mm512_cvtepu8_epi32(load_factors(factors + 16 * (2 * group + part)));
        factor = _mm512_and_si512(both, _mm512_set1_epi32(15));
        minimum_factor = _mm512_srli_epi32(both, 4);
      }
      return {_mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor)),
              _mm512_mul_ps(minimum, _mm512_cvtepi32_ps(minimum_factor))};
    }
  }
}

// --- 8-bit activations ---

// Adds quads [first_quad, first_quad + 32 / parts / 4) of a group to the tile's sums.
template <class Format, int part, int tokens>
QUIRE_ALWAYS_INLINE inline void add_part(const Panels& records, int group,
                                         const ActivationGroup* activations, std::int64_t stride,
                                         Sums<tokens>& sums) {
  using Sizes = PackedSizes<Format>;
  constexpr int kQuads = 8 / Sizes::kParts;
  __m512i dots[kPanels][tokens];
  unroll<tokens>([&](auto t) LAMBDA {
    if constexpr (Format::kOffsetShift >= 0) {
      const ActivationGroup& a = activations[t * stride];
      const std::int32_t minus = Sizes::kParts == 2 ? a.minus_part[part] : a.minus_total;
      dots[0][t] = dots[1][t] = _mm512_slli_epi32(
          _mm512_set1_epi32(minus), Format::kOffsetShift < 0 ? 0 : Format::kOffsetShift);
    } else {
      dots[0][t] = dots[1][t] = _mm512_setzero_si512();
    }
  });
  unroll<kQuads>([&](auto q) LAMBDA {
    // Quads v and v + 4 share a vector of nibbles: one after the other, so that it need not be
    // kept.
    constexpr int i = decltype(q)::kValue;
    constexpr int quad = kQuads == 8 ? i / 2 + i % 2 * 4 : i + part * kQuads;
    const __m512i codes0 = load_codes<Format, quad>(records.at[0] + group * Sizes::kGroupBytes);
    const __m512i codes1 = load_codes<Format, quad>(records.at[1] + group * Sizes::kGroupBytes);
    unroll<tokens>([&](auto t) LAMBDA {
      std::int32_t four;
      __builtin_memcpy(&four, activations[t * stride].codes + 4 * quad, sizeof four);
      const __m512i others = _mm512_set1_epi32(four);
      dots[0][t] = _mm512_dpbusd_epi32(dots[0][t], codes0, others);
      dots[1][t] = _mm512_dpbusd_epi32(dots[1][t], codes1, others);
    });
  });
  unroll<kPanels>([&](auto p) LAMBDA {
    const Scales scales = load_scales<Format, part>(records.at[p] + Sizes::kCodeBytes, group);
    unroll<tokens>([&](auto t) LAMBDA {
      const ActivationGroup& a = activations[t * stride];
      const __m512 scale = _mm512_mul_ps(scales.scale, _mm512_set1_ps(a.scale));
      sums[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[p][t]), scale, sums[p][t]);
      if constexpr (Sizes::kMinimum) {
        const float sum = Sizes::kParts == 2 ? a.part_sum[part] : a.sum;
        sums[p][t] = _mm512_fmadd_ps(scales.minimum, _mm512_set1_ps(sum), sums[p][t]);
      }
    });
  });
}

// A kind of product that a tile computes: adds all columns to its sums.
template <class Format>
struct IntegerProduct {
  static constexpr int kTokens = kTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, Panels panels, int first_token,
                                      Sums<tokens>& sums) {
    using Sizes = PackedSizes<Format>;
    const ActivationGroup* activations = args.groups + first_token * args.group_stride;
    const std::int64_t stride = args.group_stride;
    for (int column = 0; column < args.columns; column += Sizes::kColumns) {
      for (int group = 0; group < Sizes::kGroups; ++group) {
        unroll<kPanels>([&](auto p) LAMBDA {
          if (!panels.ahead[p]) return;
          constexpr int kBytes = Sizes::kRecordBytes / Sizes::kGroups;
          fetch<kBytes>(panels.ahead[p]);
          panels.ahead[p] += kBytes;
        });
        unroll<Sizes::kParts>([&](auto part) LAMBDA {
          add_part<Format, decltype(part)::kValue, tokens>(panels, group, activations, stride,
                                                           sums);
        });
        ++activations;
      }
      unroll<kPanels>([&](auto p) LAMBDA { panels.at[p] += Sizes::kRecordBytes; });
    }
  }
};

// --- float32 activations ---

// sums = fma(weight, activation, sums) for `columns` columns of [column][16] float32 weights that
// `load` reads.
template <int tokens, class Load>
QUIRE_ALWAYS_INLINE inline void add_columns(int columns, const float* values, std::int64_t stride,
                                            Sums<tokens>& sums, Load load) {
  for (int column = 0; column < columns; ++column) {
    const __m512 weights0 = load(0, column);
    const __m512 weights1 = load(1, column);
    unroll<tokens>([&](auto t) LAMBDA {
      const __m512 value = _mm512_set1_ps(values[t * stride + column]);
      sums[0][t] = _mm512_fmadd_ps(weights0, value, sums[0][t]);
      sums[1][t] = _mm512_fmadd_ps(weights1, value, sums[1][t]);
    });
  }
}

template <DType type>
struct PlainProduct {
  static constexpr int kTokens = kFloatTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const Panels& panels, int first_token,
                                      Sums<tokens>& sums) {
    constexpr int kColumnBytes = kRows * (type == DType::f32 ? 4 : 2);
    const float* values = args.values + first_token * args.value_stride;
    add_columns<tokens>(args.columns, values, args.value_stride, sums,
                        [&](int p, int column) LAMBDA {
                          const std::int64_t offset = std::int64_t{column} * kColumnBytes;
                          if (panels.ahead[p]) fetch<1>(panels.ahead[p] + offset);
                          if constexpr (type == DType::f32) {
                            return _mm512_loadu_ps(panels.at[p] + offset);
                          } else if constexpr (type == DType::f16) {
                            return load_halves(panels.at[p] + offset);
                          } else {
                            return load_bfloats(panels.at[p] + offset);
                          }
                        });
  }
};

// Writes the weights of a group as [column][16] float32.
template <class Format>
QUIRE_ALWAYS_INLINE inline void expand(const std::byte* record, int group, float* to) {
  using Sizes = PackedSizes<Format>;
  unroll<8>([&](auto q) LAMBDA {
    constexpr int quad = decltype(q)::kValue;
    constexpr int part = Sizes::kParts == 2 ? quad / 4 : 0;
    const Scales scales = load_scales<Format, part>(record + Sizes::kCodeBytes, group);
    const __m512i codes = load_codes<Format, quad>(record + group * Sizes::kGroupBytes);
    unroll<4>([&](auto c) LAMBDA {
      __m512i code = _mm512_and_si512(_mm512_srli_epi32(codes, 8 * c), _mm512_set1_epi32(255));
      if constexpr (Sizes::kOffset != 0)
        code = _mm512_sub_epi32(code, _mm512_set1_epi32(Sizes::kOffset));
      __m512 weight = _mm512_mul_ps(scales.scale, _mm512_cvtepi32_ps(code));
      if constexpr (Sizes::kMinimum) weight = _mm512_add_ps(weight, scales.minimum);
      _mm512_storeu_ps(to + (4 * quad + c) * kRows, weight);
    });
  });
}

template <class Format>
struct ExpandedProduct {
  static constexpr int kTokens = kExpandedTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, Panels panels, int first_token,
                                      Sums<tokens>& sums) {
    using Sizes = PackedSizes<Format>;
    const float* values = args.values + first_token * args.value_stride;
    alignas(64) float weights[kPanels][kGroup * kRows];
    int group = 0;
    for (int column = 0; column < args.columns; column += kGroup) {
      unroll<kPanels>([&](auto p) LAMBDA { expand<Format>(panels.at[p], group, weights[p]); });
      add_columns<tokens>(kGroup, values + column, args.value_stride, sums,
                          [&](int p, int c)
                              LAMBDA { return _mm512_load_ps(weights[p] + c * kRows); });
      if (++group == Sizes::kGroups) {
        group = 0;
        unroll<kPanels>([&](auto p) LAMBDA { panels.at[p] += Sizes::kRecordBytes; });
      }
    }
  }
};

// --- tiles ---

// Where the two panels of a tile are and which of their rows exist. A last odd panel is both panels
// of its tile, the second one without rows.
struct TileRows {
  Panels panels;
  std::int64_t first_row[kPanels];
  __mmask16 mask[kPanels];
};

TileRows tile_rows(const MatmulArgs& args, std::int64_t panel) {
  TileRows tile;
  for (int p = 0; p < kPanels; ++p) {
    const bool exists = panel + p < args.last_panel;
    const std::int64_t index = exists ? panel + p : panel;
    tile.panels.at[p] = args.panels + static_cast<std::size_t>(index) * args.panel_bytes;
    tile.first_row[p] = index * kRows;
    const std::int64_t rows = exists ? args.rows - index * kRows : 0;
    tile.mask[p] = static_cast<__mmask16>(rows >= kRows ? 0xffff : (1 << rows) - 1);
  }
  return tile;
}

// What pass `pass` of `passes` over a tile fetches. Two passes share the work: the last two, so
// that little of it is pushed out again before it is used.
void set_ahead(const MatmulArgs& args, std::int64_t panel, int pass, int passes, TileRows& tile) {
  constexpr std::size_t kLargeTile = std::size_t{256} << 10;  // more would not stay cached
  for (int p = 0; p < kPanels; ++p) {
    tile.panels.ahead[p] = nullptr;
    if (passes > 1 && pass != passes - kPanels + p) continue;
    if (kPanels * args.panel_bytes > kLargeTile) {
      tile.panels.ahead[p] = tile.panels.at[p] + 4096;
    } else if (panel + kPanels + p < args.last_panel) {
      tile.panels.ahead[p] = tile.panels.at[p] + kPanels * args.panel_bytes;
    }
  }
}

template <class Product, int tokens>
void multiply_tile(const MatmulArgs& args, const TileRows& tile, int first_token) {
  Sums<tokens> sums;
  float* output = args.output + first_token * args.output_stride;
  unroll<tokens>([&](auto t) LAMBDA {
    unroll<kPanels>([&](auto p) LAMBDA {
      sums[p][t] = _mm512_setzero_ps();
      if (args.resume) {
        sums[p][t] = _mm512_maskz_loadu_ps(tile.mask[p],
                                           output + t * args.output_stride + tile.first_row[p]);
      }
    });
  });
  Product::template add<tokens>(args, tile.panels, first_token, sums);
  unroll<kPanels>([&](auto p) LAMBDA {
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

template <class Product, int... counts>
void multiply_all(const MatmulArgs& args, std::integer_sequence<int, counts...>) {
  static constexpr TileFunction kTiles[] = {multiply_tile<Product, counts + 1>...};
  // Tokens are shared out evenly over the least number of tiles.
  const int tiles = (args.tokens + Product::kTokens - 1) / Product::kTokens;
  for (std::int64_t panel = args.first_panel; panel < args.last_panel; panel += kPanels) {
    TileRows tile = tile_rows(args, panel);
    int first = 0;
    for (int i = 0; i < tiles; ++i) {
      const int count = (args.tokens - first) / (tiles - i);
      set_ahead(args, panel, i, tiles, tile);
      kTiles[count - 1](args, tile, first);
      first += count;
    }
  }
}

template <class Product>
void multiply_all(const MatmulArgs& args) {
  multiply_all<Product>(args, std::make_integer_sequence<int, Product::kTokens>());
}

}  // namespace

void multiply_avx512(const MatmulArgs& args) {
  switch (args.form) {
    case MatmulForm::integer:
      visit_packed_format(args.type,
                          [&]<class Format>() { multiply_all<IntegerProduct<Format>>(args); });
      return;
    case MatmulForm::expanded:
      visit_packed_format(args.type,
                          [&]<class Format>() { multiply_all<ExpandedProduct<Format>>(args); });
      return;
    case MatmulForm::plain:
      if (args.type == DType::f32) multiply_all<PlainProduct<DType::f32>>(args);
      if (args.type == DType::f16) multiply_all<PlainProduct<DType::f16>>(args);
      if (args.type == DType::bf16) multiply_all<PlainProduct<DType::bf16>>(args);
      return;
  }
}

void quantise_row_avx512(const float* values, int columns, ActivationGroup* to, int groups) {
  for (int group = 0; group < groups; ++group, values += kGroup, columns -= kGroup) {
    const int count = columns < 0 ? 0 : columns > kGroup ? kGroup : columns;
    const unsigned mask = count == kGroup ? ~0u : (1u << count) - 1;
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask & 0xffff), values);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), values + 16);
    // Magnitudes compare like the integers that hold them, with infinities and NaNs above the rest.
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const int largest_bits = _mm512_reduce_max_epi32(
        _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
    float largest;
    __builtin_memcpy(&largest, &largest_bits, sizeof largest);
    const bool finite = largest_bits < 0x7f800000;
    const bool zero = finite && largest < kSmallestActivation;
    const float inverse = !finite || zero ? 0.0f : 127.0f / largest;
    const __mmask16 kept = finite ? 0xffff : 0;
    const __m512i low_codes =
        _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(low, _mm512_set1_ps(inverse)));
    const __m512i high_codes =
        _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(high, _mm512_set1_ps(inverse)));
    ActivationGroup& result = to[group];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(result.codes), _mm512_cvtepi32_epi8(low_codes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(result.codes + 16),
                     _mm512_cvtepi32_epi8(high_codes));
    const int totals[2] = {_mm512_reduce_add_epi32(low_codes), _mm512_reduce_add_epi32(high_codes)};
    result.scale = !finite ? __builtin_nanf("") : zero ? 0.0f : largest / 127.0f;
    result.sum = result.scale * static_cast<float>(totals[0] + totals[1]);
    result.minus_total = -(totals[0] + totals[1]);
    for (int part = 0; part < 2; ++part) {
      result.part_sum[part] = result.scale * static_cast<float>(totals[part]);
      result.minus_part[part] = -totals[part];
    }
    result.unused = 0;
  }
}

}  // namespace quire::cpu
