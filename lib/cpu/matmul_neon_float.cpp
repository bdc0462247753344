#include "cpu/matmul_neon_tile.h"
#include "cpu/matmul_neon_weights.h"

// float32 activations: one fma for each weight, columns ascending.

namespace quire::cpu {
namespace {

constexpr int kFloatTile = 4;  // tokens

// sums = fma(weight, activation, sums) for `columns` columns of [column][16] weights; load(v) reads
// vector v of them.
template <int tokens, class Load>
QUIRE_ALWAYS_INLINE inline void add_columns(int columns, const float* values, std::int64_t stride,
                                            Sums<tokens>& sums, Load load) {
  for (int column = 0; column < columns; ++column) {
    float32x4_t weights[kVectors];
    unroll<kVectors>([&](auto v)
                         LAMBDA { weights[v] = load(kVectors * std::int64_t{column} + v); });
    unroll<tokens>([&](auto t) LAMBDA {
      const float32x4_t value = vdupq_n_f32(values[t * stride + column]);
      unroll<kVectors>([&](auto v)
                           LAMBDA { sums[v][t] = vfmaq_f32(sums[v][t], weights[v], value); });
    });
  }
}

template <DType type>
struct PlainProduct {
  static constexpr int kTokens = kFloatTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const std::byte* panel,
                                      int first_token, Sums<tokens>& sums) {
    constexpr int kVector = kLanes * (type == DType::f32 ? 4 : 2);
    const float* values = args.values + first_token * args.value_stride;
    add_columns<tokens>(args.columns, values, args.value_stride, sums,
                        [&](std::int64_t vector) LAMBDA {
                          const std::byte* from = panel + vector * kVector;
                          if constexpr (type == DType::f32) {
                            return vld1q_f32(reinterpret_cast<const float*>(from));
                          } else if constexpr (type == DType::f16) {
                            return load_halves(from);
                          } else {
                            return load_bfloats(from);
                          }
                        });
  }
};

// Writes the weights of 4 rows of a group into [column][16] float32.
template <class Format>
QUIRE_ALWAYS_INLINE inline void expand(const std::byte* record, int group, int v, float* to) {
  using Sizes = PackedSizes<Format>;
  constexpr int kOffset = kSignedCodes<Format> ? 0 : Sizes::kOffset;
  unroll<8>([&](auto q) LAMBDA {
    constexpr int quad = decltype(q)::kValue;
    constexpr int part = Sizes::kParts == 2 ? quad / 4 : 0;
    const std::byte* scales = record + Sizes::kCodeBytes;
    const float32x4_t scale = load_scale<Format, part>(scales, group, v);
    const int32x4_t codes = vreinterpretq_s32_s8(
        load_codes<Format, quad>(record + group * Sizes::kGroupBytes + 16 * v));
    unroll<4>([&](auto c) LAMBDA {
      // Byte c of each lane, its sign kept.
      const int32x4_t code = vshrq_n_s32(vshlq_n_s32(codes, 24 - 8 * c), 24);
      float32x4_t weight = vmulq_f32(scale, vcvtq_f32_s32(vsubq_s32(code, vdupq_n_s32(kOffset))));
      if constexpr (Sizes::kMinimum) {
        const float32x4_t minimum = load_minimum<Format, part>(scales, group, v);
        weight = Sizes::kSubtracts ? vsubq_f32(weight, minimum) : vaddq_f32(weight, minimum);
      }
      vst1q_f32(to + (4 * quad + c) * kRows, weight);
    });
  });
}

template <class Format>
struct ExpandedProduct {
  static constexpr int kTokens = kFloatTile;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const std::byte* record,
                                      int first_token, Sums<tokens>& sums) {
    using Sizes = PackedSizes<Format>;
    const float* values = args.values + first_token * args.value_stride;
    float weights[kGroup * kRows];
    int group = 0;
    for (int column = 0; column < args.columns; column += kGroup) {
      for (int v = 0; v < kVectors; ++v) expand<Format>(record, group, v, weights + kLanes * v);
      add_columns<tokens>(kGroup, values + column, args.value_stride, sums,
                          [&](std::int64_t vector)
                              LAMBDA { return vld1q_f32(weights + vector * kLanes); });
      if (++group == Sizes::kGroups) {
        group = 0;
        record += Sizes::kRecordBytes;
      }
    }
  }
};

}  // namespace

void multiply_neon_expanded(const MatmulArgs& args) {
  visit_packed_format(args.type,
                      [&]<class Format>() { multiply_all<ExpandedProduct<Format>>(args); });
}

void multiply_neon_plain(const MatmulArgs& args) {
  if (args.type == DType::f32) multiply_all<PlainProduct<DType::f32>>(args);
  if (args.type == DType::f16) multiply_all<PlainProduct<DType::f16>>(args);
  if (args.type == DType::bf16) multiply_all<PlainProduct<DType::bf16>>(args);
}

}  // namespace quire::cpu
