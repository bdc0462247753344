#pragma once

#include "cpu/matmul_neon_tile.h"
#include "cpu/matmul_neon_weights.h"

// 8-bit activations with NEON: what the instruction sets share. The sums of one half of a panel (8
// rows) fill the registers.

namespace quire::cpu {
namespace {

constexpr int kHalf = 2;  // vectors of rows

template <int tokens>
using Dots = int32x4_t[kHalf][tokens];

// -offset * (sum of the part's codes), for each lane; 0 where the codes are signed or have no
// offset.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline int32x4_t load_start(const ActivationGroup& activations) {
  if constexpr (Format::kOffsetShift < 0 || kSignedCodes<Format>) {
    return vdupq_n_s32(0);
  } else {
    const std::int32_t minus =
        PackedSizes<Format>::kParts == 2 ? activations.minus_part[part] : activations.minus_total;
    return vshlq_n_s32(vdupq_n_s32(minus), Format::kOffsetShift);
  }
}

// Multiplier has
//   kTokens  the most tokens of a tile
//   multiply<Format, part, tokens>(group, activations, stride, dots), which adds the integer dot
//            products of one part of a group: 8 rows, whose codes begin at `group`, by `tokens`
//            tokens; the dots of a token begin with one value for all rows
template <class Multiplier, class Format, int part, int tokens>
QUIRE_ALWAYS_INLINE inline void add_part(const std::byte* record, int group, int half,
                                         const ActivationGroup* activations, std::int64_t stride,
                                         float32x4_t (&sums)[kHalf][tokens]) {
  using Sizes = PackedSizes<Format>;
  Dots<tokens> dots;
  unroll<tokens>([&](auto t) LAMBDA {
    unroll<kHalf>([&](auto v)
                      LAMBDA { dots[v][t] = load_start<Format, part>(activations[t * stride]); });
  });
  Multiplier::template multiply<Format, part, tokens>(
      record + group * Sizes::kGroupBytes + 32 * half, activations, stride, dots);
  unroll<kHalf>([&](auto v) LAMBDA {
    const std::byte* from = record + Sizes::kCodeBytes;
    const float32x4_t scales = load_scale<Format, part>(from, group, kHalf * half + v);
    unroll<tokens>([&](auto t) LAMBDA {
      const ActivationGroup& a = activations[t * stride];
      sums[v][t] = vfmaq_f32(sums[v][t], vcvtq_f32_s32(dots[v][t]), vmulq_n_f32(scales, a.scale));
    });
    if constexpr (Sizes::kMinimum) {
      const float32x4_t minimum = load_minimum<Format, part>(from, group, kHalf * half + v);
      unroll<tokens>([&](auto t) LAMBDA {
        const ActivationGroup& a = activations[t * stride];
        const float32x4_t sum = vdupq_n_f32(Sizes::kParts == 2 ? a.part_sum[part] : a.sum);
        sums[v][t] = Sizes::kSubtracts ? vfmsq_f32(sums[v][t], minimum, sum)
                                       : vfmaq_f32(sums[v][t], minimum, sum);
      });
    }
  });
}

template <class Multiplier, class Format>
struct IntegerProduct {
  static constexpr int kTokens = Multiplier::kTokens;

  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const std::byte* panel,
                                      int first_token, Sums<tokens>& sums) {
    unroll<kVectors / kHalf>([&](auto half) LAMBDA {
      float32x4_t half_sums[kHalf][tokens];
      unroll<tokens>([&](auto t) LAMBDA {
        unroll<kHalf>([&](auto v) LAMBDA { half_sums[v][t] = sums[kHalf * half + v][t]; });
      });
      add_half<tokens>(args, panel, half, first_token, half_sums);
      unroll<tokens>([&](auto t) LAMBDA {
        unroll<kHalf>([&](auto v) LAMBDA { sums[kHalf * half + v][t] = half_sums[v][t]; });
      });
    });
  }

 private:
  template <int tokens>
  QUIRE_ALWAYS_INLINE static void add_half(const MatmulArgs& args, const std::byte* record,
                                           int half, int first_token,
                                           float32x4_t (&sums)[kHalf][tokens]) {
    using Sizes = PackedSizes<Format>;
    const ActivationGroup* activations = args.groups + first_token * args.group_stride;
    for (int column = 0; column < args.columns; column += Sizes::kColumns) {
      for (int group = 0; group < Sizes::kGroups; ++group) {
        unroll<Sizes::kParts>([&](auto part) LAMBDA {
          add_part<Multiplier, Format, decltype(part)::kValue, tokens>(
              record, group, half, activations, args.group_stride, sums);
        });
        ++activations;
      }
      record += Sizes::kRecordBytes;
    }
  }
};

}  // namespace
}  // namespace quire::cpu
