#pragma once

#include "cpu/matmul_avx2_tile.h"
#include "cpu/matmul_avx2_weights.h"

// 8-bit activations in 256-bit registers: what the instruction sets share. The sums of one half of
// a panel (8 rows) fill the registers. Only for files compiled for AVX2 or more.

namespace quire::cpu {
namespace {

// A sum that the compiler does not rearrange with others: it would need more registers.
QUIRE_ALWAYS_INLINE inline __m256i in_order(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

// Four codes of an activation, for each lane.
QUIRE_ALWAYS_INLINE inline __m256i broadcast_quad(const ActivationGroup& activations, int quad) {
  std::int32_t four;
  __builtin_memcpy(&four, activations.codes + 4 * quad, sizeof four);
  return _mm256_set1_epi32(four);
}

// Quad number i of a part of a group. Quads v and v + 4 share a vector of nibbles: one after the
// other.
template <class Format, int part, int i>
constexpr int kQuad = PackedSizes<Format>::kParts == 1 ? i / 2 + i % 2 * 4 : i + part * 4;

// -offset * (sum of the part's codes), for each lane.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline __m256i load_start(const ActivationGroup& activations) {
  static_assert(Format::kOffsetShift >= 0);
  return _mm256_slli_epi32(
      _mm256_set1_epi32(PackedSizes<Format>::kParts == 2 ? activations.minus_part[part]
                                                         : activations.minus_total),
      Format::kOffsetShift);
}

// Dots has
//   kTokens<Format>  the most tokens of a tile
//   multiply<Format, part, tokens>(group, activations, stride, dots), the integer dot products of
//   one
//            part of a group: 8 rows, whose codes begin at `group`, by `tokens` tokens
template <class Dots, class Format, int part, int tokens>
QUIRE_ALWAYS_INLINE inline void add_part(const std::byte*& record, int group, int half,
                                         const ActivationGroup* activations, std::int64_t stride,
                                         __m256 (&sums)[tokens]) {
  using Sizes = PackedSizes<Format>;
  __m256i dots[tokens];
  Dots::template multiply<Format, part, tokens>(record + group * Sizes::kGroupBytes + 32 * half,
                                                activations, stride, dots);
  renew(record);
  const __m256 scales = load_scale<Format, part>(record + Sizes::kCodeBytes, group, half);
  unroll<tokens>([&](auto t) LAMBDA {
    const __m256 scale = _mm256_mul_ps(scales, _mm256_set1_ps(activations[t * stride].scale));
    sums[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t]), scale, sums[t]);
  });
  if constexpr (Sizes::kMinimum) {
    renew(record);
    const __m256 minimum = load_minimum<Format, part>(record + Sizes::kCodeBytes, group, half);
    unroll<tokens>([&](auto t) LAMBDA {
      const ActivationGroup& a = activations[t * stride];
      const __m256 sum = _mm256_set1_ps(Sizes::kParts == 2 ? a.part_sum[part] : a.sum);
      sums[t] = Sizes::kSubtracts ? _mm256_fnmadd_ps(minimum, sum, sums[t])
                                  : _mm256_fmadd_ps(minimum, sum, sums[t]);
    });
  }
}

template <class Dots, class Format>
struct IntegerProduct : GroupActivations, PackedWeights<Format> {
  static constexpr int kTokens = Dots::template kTokens<Format>;

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
          add_part<Dots, Format, decltype(part)::kValue, tokens>(panel.at, group, half, activations,
                                                                 args.group_stride, sums);
        });
        ++activations;
      }
      panel.at += Sizes::kRecordBytes;
    }
    unroll<tokens>([&](auto t) LAMBDA { to[t] = sums[t]; });
  }
};

}  // namespace
}  // namespace quire::cpu
