#include <immintrin.h>

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_unroll.h"
#include "cpu/packed_format.h"

// AVX2 with FMA and F16C. Lanes are rows, a panel is two vectors. Small unsigned codes are
// multiplied by vpmaddubsw and summed in 16 bits as long as these cannot overflow; 8-bit codes
// would saturate there, so their magnitudes are multiplied by activations that carry both signs.

namespace quire::cpu {
namespace {

#define LAMBDA QUIRE_ALWAYS_INLINE

constexpr int kLanes = 8;
constexpr int kHalves = 2;        // vectors of a panel's 16 rows
constexpr int kTile = 4;          // tokens of an integer tile, which is one half of a panel
constexpr int kFloatTile = 6;     // tokens of a float tile, which is a panel
constexpr int kExpandedTile = 4;  // of one that expands its weights

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

QUIRE_ALWAYS_INLINE inline __m256i load_bytes(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

QUIRE_ALWAYS_INLINE inline __m256i load_table(const std::uint8_t* table) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// The unsigned codes of one quad of columns, 8 rows: byte 4 r + c is row r, column 4 quad + c.
// `group` points to the half's 32 bytes of the group's first vector.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m256i load_codes(const std::byte* group) {
  if constexpr (Format::kCodes == CodeForm::bytes) return load_bytes(group + kVectorBytes * quad);
  const __m256i pairs = load_bytes(group + kVectorBytes * (quad % 4));
  const __m256i low_bits = _mm256_set1_epi8(15);
  const __m256i codes = quad < 4 ? _mm256_and_si256(pairs, low_bits)
                                 : _mm256_and_si256(_mm256_srli_epi16(pairs, 4), low_bits);
  if constexpr (Format::kCodes == CodeForm::nibbles_1) {
    const __m256i bits = load_bytes(group + kVectorBytes * 4);
    const __m256i moved = quad <= 4 ? _mm256_slli_epi16(bits, quad <= 4 ? 4 - quad : 0)
                                    : _mm256_srli_epi16(bits, quad <= 4 ? 0 : quad - 4);
    return _mm256_or_si256(codes, _mm256_and_si256(moved, _mm256_set1_epi8(16)));
  }
  if constexpr (Format::kCodes == CodeForm::nibbles_2) {
    const __m256i bits = load_bytes(group + kVectorBytes * (4 + quad / 4));
    constexpr int place = 2 * (quad % 4);
    const __m256i moved = place <= 4 ? _mm256_slli_epi16(bits, place <= 4 ? 4 - place : 0)
                                     : _mm256_srli_epi16(bits, place <= 4 ? 0 : place - 4);
    return _mm256_or_si256(codes, _mm256_and_si256(moved, _mm256_set1_epi8(48)));
  }
  if constexpr (Format::kTable == CodeTable::iq4)
    return _mm256_shuffle_epi8(load_table(kIq4Codes), codes);
  if constexpr (Format::kTable == CodeTable::mxfp4)
    return _mm256_shuffle_epi8(load_table(kMxfp4Codes), codes);
  return codes;
}

QUIRE_ALWAYS_INLINE inline __m128i load_16_bytes(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

QUIRE_ALWAYS_INLINE inline __m256 load_halves(const std::byte* from) {
  return _mm256_cvtph_ps(load_16_bytes(from));
}

QUIRE_ALWAYS_INLINE inline __m256 load_bfloats(const std::byte* from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(from)), 16));
}

QUIRE_ALWAYS_INLINE inline __m128i load_factors(const std::byte* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

struct Scales {
  __m256 scale;
  __m256 minimum;  // to be added; only of types that have minimums
};

QUIRE_ALWAYS_INLINE inline __m256 times(__m256 scale, __m256i factor) {
  return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(factor));
}

// Scales of 8 rows for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline Scales load_scales(const std::byte* scales, int group, int half) {
  const std::byte* halves = scales + 16 * half;
  const std::byte* factors = scales + 64 + 8 * half;
  const __m256 none = _mm256_setzero_ps();
  if constexpr (Format::kScales == ScaleForm::half) {
    return {load_halves(halves + 32 * group), none};
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return {load_bfloats(halves + 32 * group), none};
  } else if constexpr (Format::kScales == ScaleForm::half_min) {
    return {load_halves(halves + 32 * group), load_halves(halves + 64 + 32 * group)};
  } else if constexpr (Format::kScales == ScaleForm::super) {
    return {times(load_halves(halves), _mm256_cvtepi8_epi32(load_factors(factors + 16 * group))),
            none};
  } else if constexpr (Format::kScales == ScaleForm::super_16) {
    const __m128i factor = load_factors(factors + 16 * (2 * group + part));
    return {times(load_halves(halves), _mm256_cvtepi8_epi32(factor)), none};
  } else {
    const __m256 minimum = _mm256_xor_ps(load_halves(halves + 32), _mm256_set1_ps(-0.0f));
    if constexpr (Format::kScales == ScaleForm::super_min) {
      return {times(load_halves(halves), _mm256_cvtepu8_epi32(load_factors(factors + 16 * group))),
              times(minimum, _mm256_cvtepu8_epi32(load_factors(factors + 128 + 16 * group)))};
    } else {
      const __m256i both = _mm256_cvtepu8_epi32(load_factors(factors + 16 * (2 * group + part)));
      return {times(load_halves(halves), _mm256_and_si256(both, _mm256_set1_epi32(15))),
              times(minimum, _mm256_srli_epi32(both, 4))};
    }
  }
}

// --- 8-bit activations ---

// Whether codes, less an offset of 128, are multiplied as signed numbers.
template <class Format>
constexpr bool kSignedCodes = Format::kOffsetShift == 7;

// Quads whose products fit a sum of 16 bits.
template <class Format>
constexpr int kQuadsOf16Bits = 32767 / (2 * 127 * Format::kLargestCode);

// The integer dot products of one part of a group: 8 rows by `tokens` tokens.
template <class Format, int part, int tokens>
QUIRE_ALWAYS_INLINE inline void multiply_part(const std::byte* group,
                                              const ActivationGroup* activations,
                                              std::int64_t stride, __m256i (&dots)[tokens]) {
  using Sizes = PackedSizes<Format>;
  constexpr int kQuads = 8 / Sizes::kParts;
  constexpr int kStep = kSignedCodes<Format>              ? 1
                        : kQuadsOf16Bits<Format> < kQuads ? kQuadsOf16Bits<Format>
                                                          : kQuads;
  static_assert(kStep >= 1 && kQuads % kStep == 0);
  const __m256i ones = _mm256_set1_epi16(1);
  unroll<tokens>([&](auto t) LAMBDA {
    dots[t] = _mm256_setzero_si256();
    if constexpr (Format::kOffsetShift >= 0 && !kSignedCodes<Format>) {
      const ActivationGroup& a = activations[t * stride];
      const std::int32_t minus = Sizes::kParts == 2 ? a.minus_part[part] : a.minus_total;
      dots[t] = _mm256_slli_epi32(_mm256_set1_epi32(minus),
                                  Format::kOffsetShift < 0 ? 0 : Format::kOffsetShift);
    }
  });
  unroll<kQuads / kStep>([&](auto step) LAMBDA {
    __m256i sums[tokens];
    unroll<kStep>([&](auto q) LAMBDA {
      constexpr int quad = decltype(q)::kValue + decltype(step)::kValue * kStep + part * kQuads;
      __m256i codes = load_codes<Format, quad>(group);
      __m256i magnitudes = codes;
      if constexpr (kSignedCodes<Format>) {
        codes = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
        magnitudes = _mm256_abs_epi8(codes);
      }
      unroll<tokens>([&](auto t) LAMBDA {
        std::int32_t four;
        __builtin_memcpy(&four, activations[t * stride].codes + 4 * quad, sizeof four);
        __m256i others = _mm256_set1_epi32(four);
        if constexpr (kSignedCodes<Format>) others = _mm256_sign_epi8(others, codes);
        const __m256i products = _mm256_maddubs_epi16(magnitudes, others);
        if constexpr (decltype(q)::kValue == 0) {
          sums[t] = products;
        } else {
          sums[t] = _mm256_add_epi16(sums[t], products);
        }
      });
    });
    unroll<tokens>([&](auto t) LAMBDA {
      dots[t] = _mm256_add_epi32(dots[t], _mm256_madd_epi16(sums[t], ones));
    });
  });
}

template <class Format, int part, int tokens>
QUIRE_ALWAYS_INLINE inline void add_part(const std::byte* record, int group, int half,
                                         const ActivationGroup* activations, std::int64_t stride,
                                         __m256 (&sums)[tokens]) {
  using Sizes = PackedSizes<Format>;
  __m256i dots[tokens];
  multiply_part<Format, part, tokens>(record + group * Sizes::kGroupBytes + 32 * half, activations,
                                      stride, dots);
  const Scales scales = load_scales<Format, part>(record + Sizes::kCodeBytes, group, half);
  unroll<tokens>([&](auto t) LAMBDA {
    const ActivationGroup& a = activations[t * stride];
    const __m256 scale = _mm256_mul_ps(scales.scale, _mm256_set1_ps(a.scale));
    sums[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t]), scale, sums[t]);
    if constexpr (Sizes::kMinimum) {
      const float sum = Sizes::kParts == 2 ? a.part_sum[part] : a.sum;
      sums[t] = _mm256_fmadd_ps(scales.minimum, _mm256_set1_ps(sum), sums[t]);
    }
  });
}

template <int tokens>
using Sums = __m256[kHalves][tokens];

// A kind of product that a tile computes: adds all columns to its sums.
template <class Format>
struct IntegerProduct {
  static constexpr int kTokens = kTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const Panel& panel, int first_token,
                                      Sums<tokens>& sums) {
    add_half<tokens>(args, panel, 0, first_token, sums[0]);
    add_half<tokens>(args, {panel.at, nullptr}, 1, first_token, sums[1]);
  }

 private:
  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add_half(const MatmulArgs& args, Panel panel, int half,
                                           int first_token, __m256 (&to)[tokens]) {
    using Sizes = PackedSizes<Format>;
    const ActivationGroup* activations = args.groups + first_token * args.group_stride;
    __m256 sums[tokens];
    unroll<tokens>([&](auto t) LAMBDA { sums[t] = to[t]; });
    for (int column = 0; column < args.columns; column += Sizes::kColumns) {
      for (int group = 0; group < Sizes::kGroups; ++group) {
        if (panel.ahead) {
          constexpr int kBytes = Sizes::kRecordBytes / Sizes::kGroups;
          fetch<kBytes>(panel.ahead);
          panel.ahead += kBytes;
        }
        unroll<Sizes::kParts>([&](auto part) LAMBDA {
          add_part<Format, decltype(part)::kValue, tokens>(panel.at, group, half, activations,
                                                           args.group_stride, sums);
        });
        ++activations;
      }
      panel.at += Sizes::kRecordBytes;
    }
    unroll<tokens>([&](auto t) LAMBDA { to[t] = sums[t]; });
  }
};

// --- float32 activations ---

// sums = fma(weight, activation, sums) for `columns` columns of [column][16] weights that `load`
// reads.
template <int tokens, class Load>
QUIRE_ALWAYS_INLINE inline void add_columns(int columns, const float* values, std::int64_t stride,
                                            Sums<tokens>& sums, Load load) {
  for (int column = 0; column < columns; ++column) {
    const __m256 weights0 = load(2 * std::int64_t{column});
    const __m256 weights1 = load(2 * std::int64_t{column} + 1);
    unroll<tokens>([&](auto t) LAMBDA {
      const __m256 value = _mm256_set1_ps(values[t * stride + column]);
      sums[0][t] = _mm256_fmadd_ps(weights0, value, sums[0][t]);
      sums[1][t] = _mm256_fmadd_ps(weights1, value, sums[1][t]);
    });
  }
}

template <DType type>
struct PlainProduct {
  static constexpr int kTokens = kFloatTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const Panel& panel, int first_token,
                                      Sums<tokens>& sums) {
    constexpr int kVector = kLanes * (type == DType::f32 ? 4 : 2);
    const float* values = args.values + first_token * args.value_stride;
    add_columns<tokens>(args.columns, values, args.value_stride, sums,
                        [&](std::int64_t vector) LAMBDA {
                          const std::byte* from = panel.at + vector * kVector;
                          if (panel.ahead) fetch<1>(panel.ahead + vector * kVector);
                          if constexpr (type == DType::f32) {
                            return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
                          } else if constexpr (type == DType::f16) {
                            return load_halves(from);
                          } else {
                            return load_bfloats(from);
                          }
                        });
  }
};

// Writes the weights of 8 rows of a group into [column][16] float32.
template <class Format>
QUIRE_ALWAYS_INLINE inline void expand(const std::byte* record, int group, int half, float* to) {
  using Sizes = PackedSizes<Format>;
  unroll<8>([&](auto q) LAMBDA {
    constexpr int quad = decltype(q)::kValue;
    constexpr int part = Sizes::kParts == 2 ? quad / 4 : 0;
    const Scales scales = load_scales<Format, part>(record + Sizes::kCodeBytes, group, half);
    const __m256i codes = load_codes<Format, quad>(record + group * Sizes::kGroupBytes + 32 * half);
    unroll<4>([&](auto c) LAMBDA {
      __m256i code = _mm256_and_si256(_mm256_srli_epi32(codes, 8 * c), _mm256_set1_epi32(255));
      if constexpr (Sizes::kOffset != 0)
        code = _mm256_sub_epi32(code, _mm256_set1_epi32(Sizes::kOffset));
      __m256 weight = times(scales.scale, code);
      if constexpr (Sizes::kMinimum) weight = _mm256_add_ps(weight, scales.minimum);
      _mm256_storeu_ps(to + (4 * quad + c) * kHalves * kLanes, weight);
    });
  });
}

template <class Format>
struct ExpandedProduct {
  static constexpr int kTokens = kExpandedTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const Panel& panel, int first_token,
                                      Sums<tokens>& sums) {
    using Sizes = PackedSizes<Format>;
    const float* values = args.values + first_token * args.value_stride;
    const std::byte* record = panel.at;
    alignas(32) float weights[kGroup * kHalves * kLanes];
    int group = 0;
    for (int column = 0; column < args.columns; column += kGroup) {
      for (int half = 0; half < kHalves; ++half)
        expand<Format>(record, group, half, weights + kLanes * half);
      add_columns<tokens>(kGroup, values + column, args.value_stride, sums,
                          [&](std::int64_t vector)
                              LAMBDA { return _mm256_load_ps(weights + vector * kLanes); });
      if (++group == Sizes::kGroups) {
        group = 0;
        record += Sizes::kRecordBytes;
      }
    }
  }
};

// --- tiles ---

// Lanes of a half that belong to existing rows, as vmaskmov wants them.
__m256i lane_mask(std::int64_t rows) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const int count = rows < 0 ? 0 : rows > kLanes ? kLanes : static_cast<int>(rows);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
}

template <class Product, int tokens>
void multiply_tile(const MatmulArgs& args, std::int64_t index, bool fetch_next, int first_token) {
  const std::int64_t first_row = index * kHalves * kLanes;
  const std::byte* at = args.panels + static_cast<std::size_t>(index) * args.panel_bytes;
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

using TileFunction = void (*)(const MatmulArgs& args, std::int64_t index, bool fetch_next,
                              int first_token);

template <class Product, int... counts>
void multiply_all(const MatmulArgs& args, std::integer_sequence<int, counts...>) {
  static constexpr TileFunction kTiles[] = {multiply_tile<Product, counts + 1>...};
  // Tokens are shared out evenly over the least number of tiles.
  const int tiles = (args.tokens + Product::kTokens - 1) / Product::kTokens;
  for (std::int64_t panel = args.first_panel; panel < args.last_panel; ++panel) {
    int first = 0;
    for (int i = 0; i < tiles; ++i) {
      const int count = (args.tokens - first) / (tiles - i);
      kTiles[count - 1](args, panel, i == tiles - 1 && panel + 1 < args.last_panel, first);
      first += count;
    }
  }
}

template <class Product>
void multiply_all(const MatmulArgs& args) {
  multiply_all<Product>(args, std::make_integer_sequence<int, Product::kTokens>());
}

QUIRE_ALWAYS_INLINE inline int sum_of_lanes(__m256i x) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

QUIRE_ALWAYS_INLINE inline int largest_lane(__m256i x) {
  __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xb1)));
}

}  // namespace

void multiply_avx2(const MatmulArgs& args) {
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

void quantise_row_avx2(const float* values, int columns, ActivationGroup* to, int groups) {
  for (int group = 0; group < groups; ++group, columns -= kGroup) {
    __m256 x[4];
    __m256i largest_bits = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      const __m256i mask = lane_mask(columns - i * kLanes);
      x[i] = _mm256_maskload_ps(values + group * kGroup + i * kLanes, mask);
      // Magnitudes compare like the integers that hold them, with infinities and NaNs above the
      // rest.
      const __m256i bits =
          _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(0x7fffffff));
      largest_bits = _mm256_max_epi32(largest_bits, bits);
    }
    const int bits = largest_lane(largest_bits);
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof largest);
    const bool finite = bits < 0x7f800000;
    const bool zero = finite && largest < kSmallestActivation;
    const float inverse = !finite || zero ? 0.0f : 127.0f / largest;
    const __m256i kept = _mm256_set1_epi32(finite ? -1 : 0);
    __m256i codes[4];
    for (int i = 0; i < 4; ++i) {
      codes[i] =
          _mm256_and_si256(kept, _mm256_cvtps_epi32(_mm256_mul_ps(x[i], _mm256_set1_ps(inverse))));
    }
    ActivationGroup& result = to[group];
    // Packing works on 128-bit lanes: the last permutation puts the groups of four back in order.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(codes[0], codes[1]),
                                              _mm256_packs_epi32(codes[2], codes[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(result.codes),
                        _mm256_permutevar8x32_epi32(packed, order));
    const int totals[2] = {sum_of_lanes(_mm256_add_epi32(codes[0], codes[1])),
                           sum_of_lanes(_mm256_add_epi32(codes[2], codes[3]))};
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
