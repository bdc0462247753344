#include "cpu/matmul_avx2_tile.h"
#include "cpu/matmul_avx2_weights.h"

// float32 activations: one fma for each weight, columns ascending.

namespace quire::cpu {
namespace {

constexpr int kFloatTile = 6;     // tokens
constexpr int kExpandedTile = 4;  // tokens of a tile that expands its weights

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
struct PlainProduct : FloatActivations, PlainWeights<type == DType::f32 ? 4 : 2> {
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
    const std::byte* scales = record + Sizes::kCodeBytes;
    const __m256 scale = load_scale<Format, part>(scales, group, half);
    const __m256i codes = load_codes<Format, quad>(record + group * Sizes::kGroupBytes + 32 * half);
    unroll<4>([&](auto c) LAMBDA {
      __m256i code = _mm256_and_si256(_mm256_srli_epi32(codes, 8 * c), _mm256_set1_epi32(255));
      if constexpr (Sizes::kOffset != 0)
        code = _mm256_sub_epi32(code, _mm256_set1_epi32(Sizes::kOffset));
      __m256 weight = times(scale, code);
      if constexpr (Sizes::kMinimum) {
        const __m256 minimum = load_minimum<Format, part>(scales, group, half);
        weight =
            Sizes::kSubtracts ? _mm256_sub_ps(weight, minimum) : _mm256_add_ps(weight, minimum);
      }
      _mm256_storeu_ps(to + (4 * quad + c) * kHalves * kLanes, weight);
    });
  });
}

template <class Format>
struct ExpandedProduct : FloatActivations, PackedWeights<Format> {
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

}  // namespace

void multiply_avx2_expanded(const MatmulArgs& args) {
  visit_packed_format(args.type,
                      [&]<class Format>() { multiply_all<ExpandedProduct<Format>>(args); });
}

void multiply_avx2_plain(const MatmulArgs& args) {
  if (args.type == DType::f32) multiply_all<PlainProduct<DType::f32>>(args);
  if (args.type == DType::f16) multiply_all<PlainProduct<DType::f16>>(args);
  if (args.type == DType::bf16) multiply_all<PlainProduct<DType::bf16>>(args);
}

}  // namespace quire::cpu
