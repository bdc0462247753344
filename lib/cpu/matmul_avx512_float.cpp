#include "cpu/matmul_avx512_tile.h"
#include "cpu/matmul_avx512_weights.h"

// float32 activations: one fma for each weight, columns ascending.

namespace quire::cpu {
namespace {

constexpr int kFloatTile = 8;     // tokens
constexpr int kExpandedTile = 4;  // tokens of a tile that expands its weights

// sums = fma(weight, activation, sums) for `columns` columns of [column][16] float32 weights that
// `load` reads.
template <int panels, int tokens, class Load>
QUIRE_ALWAYS_INLINE inline void add_columns(int columns, const float* values, std::int64_t stride,
                                            Sums<panels, tokens>& sums, Load load) {
  for (int column = 0; column < columns; ++column) {
    __m512 weights[panels];
    unroll<panels>([&](auto p) LAMBDA { weights[p] = load(p, column); });
    unroll<tokens>([&](auto t) LAMBDA {
      const __m512 value = _mm512_set1_ps(values[t * stride + column]);
      unroll<panels>([&](auto p)
                         LAMBDA { sums[p][t] = _mm512_fmadd_ps(weights[p], value, sums[p][t]); });
    });
  }
}

template <DType type>
struct PlainProduct : FloatActivations, PlainWeights<type == DType::f32 ? 4 : 2> {
  using Repeated = PlainProduct;
  static constexpr int kTokens = kFloatTile;
  static constexpr int kStreamTokens = 0;

  template <int panels, int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const Panels& from, int first_token,
                                      Sums<panels, tokens>& sums) {
    constexpr int kColumnBytes = kRows * (type == DType::f32 ? 4 : 2);
    const float* values = args.values + first_token * args.value_stride;
    add_columns<panels, tokens>(args.columns, values, args.value_stride, sums,
                                [&](int p, int column) LAMBDA {
                                  const std::int64_t offset = std::int64_t{column} * kColumnBytes;
                                  if (from.ahead[p]) fetch<panels, 1>(from.ahead[p] + offset);
                                  if constexpr (type == DType::f32) {
                                    return _mm512_loadu_ps(from.at[p] + offset);
                                  } else if constexpr (type == DType::f16) {
                                    return load_halves(from.at[p] + offset);
                                  } else {
                                    return load_bfloats(from.at[p] + offset);
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
    const std::byte* scales = record + Sizes::kCodeBytes;
    const __m512 scale = load_scale<Format, part>(scales, group);
    const __m512i codes = load_codes<Format, quad>(record + group * Sizes::kGroupBytes);
    unroll<4>([&](auto c) LAMBDA {
      __m512i code = _mm512_and_si512(_mm512_srli_epi32(codes, 8 * c), _mm512_set1_epi32(255));
      if constexpr (Sizes::kOffset != 0)
        code = _mm512_sub_epi32(code, _mm512_set1_epi32(Sizes::kOffset));
      __m512 weight = times(scale, code);
      if constexpr (Sizes::kMinimum) {
        const __m512 minimum = load_minimum<Format, part>(scales, group);
        weight =
            Sizes::kSubtracts ? _mm512_sub_ps(weight, minimum) : _mm512_add_ps(weight, minimum);
      }
      _mm512_storeu_ps(to + (4 * quad + c) * kRows, weight);
    });
  });
}

template <class Format>
struct ExpandedProduct : FloatActivations, PackedWeights<Format> {
  using Repeated = ExpandedProduct;
  static constexpr int kTokens = kExpandedTile;
  static constexpr int kStreamTokens = 0;

  template <int panels, int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, Panels from, int first_token,
                                      Sums<panels, tokens>& sums) {
    using Sizes = PackedSizes<Format>;
    const float* values = args.values + first_token * args.value_stride;
    alignas(64) float weights[panels][kGroup * kRows];
    int group = 0;
    for (int column = 0; column < args.columns; column += kGroup) {
      unroll<panels>([&](auto p) LAMBDA { expand<Format>(from.at[p], group, weights[p]); });
      add_columns<panels, tokens>(kGroup, values + column, args.value_stride, sums,
                                  [&](int p, int c)
                                      LAMBDA { return _mm512_load_ps(weights[p] + c * kRows); });
      if (++group == Sizes::kGroups) {
        group = 0;
        unroll<panels>([&](auto p) LAMBDA { from.at[p] += Sizes::kRecordBytes; });
      }
    }
  }
};

}  // namespace

void multiply_avx512_expanded(const MatmulArgs& args) {
  visit_packed_format(args.type,
                      [&]<class Format>() { multiply_all<ExpandedProduct<Format>>(args); });
}

void multiply_avx512_plain(const MatmulArgs& args) {
  if (args.type == DType::f32) multiply_all<PlainProduct<DType::f32>>(args);
  if (args.type == DType::f16) multiply_all<PlainProduct<DType::f16>>(args);
  if (args.type == DType::bf16) multiply_all<PlainProduct<DType::bf16>>(args);
}

}  // namespace quire::cpu
