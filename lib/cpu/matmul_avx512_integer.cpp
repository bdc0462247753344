#include "cpu/matmul_avx512_tile.h"
#include "cpu/matmul_avx512_weights.h"

// 8-bit activations. vpdpbusd multiplies the unsigned weight codes by four activation codes
// broadcast from memory; the offset of the codes is in the value that its sums begin with.

namespace quire::cpu {
namespace {

constexpr int kTile = 6;  // tokens

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

}  // namespace

void multiply_avx512_integer(const MatmulArgs& args) {
  visit_packed_format(args.type,
                      [&]<class Format>() { multiply_all<IntegerProduct<Format>>(args); });
}

}  // namespace quire::cpu
