#include <type_traits>

#include "cpu/matmul_avx512_tile.h"
#include "cpu/matmul_avx512_weights.h"

// 8-bit activations. vpdpbusd multiplies the unsigned weight codes by four activation codes
// broadcast from memory; the offset of the codes is in the value that its sums begin with.

namespace quire::cpu {
namespace {

// Tokens. Halves of a group leave registers for fewer, codes that need no unpacking for one more.
template <class Format>
constexpr int kTile = PackedSizes<Format>::kParts == 2    ? 5
                      : Format::kCodes == CodeForm::bytes ? 7
                                                          : 6;
// Tokens of a tile of one panel. To unpack six bits takes so long that two panels at once gain
// more.
template <class Format>
constexpr int kStreamTile = Format::kCodes == CodeForm::nibbles_2 ? 0 : 2;

// -offset * (sum of the part's codes), for each lane.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline __m512i load_start(const ActivationGroup& activations) {
  __m512i start;
  if constexpr (Format::kOffsetShift < 0) {
    asm volatile("vpxord %0, %0, %0" : "=v"(start));  // a zero in a register would take one
  } else {
    start = _mm512_slli_epi32(
        _mm512_set1_epi32(PackedSizes<Format>::kParts == 2 ? activations.minus_part[part]
                                                           : activations.minus_total),
        Format::kOffsetShift);
  }
  return start;
}

// Scales and minimums as they are packed.
template <class Format>
struct PackedScales {
  static constexpr int kFloats = 0;
  template <int part>
  QUIRE_ALWAYS_INLINE static __m512 scale(Panels& panels, int p, int group) {
    renew(panels.at[p]);
    return load_scale<Format, part>(panels.at[p] + PackedSizes<Format>::kCodeBytes, group);
  }
  template <int part>
  QUIRE_ALWAYS_INLINE static __m512 minimum(Panels& panels, int p, int group) {
    renew(panels.at[p]);
    return load_minimum<Format, part>(panels.at[p] + PackedSizes<Format>::kCodeBytes, group);
  }
};

// The same in float32, group after group: panels, parts, scale and minimum. To expand them takes as
// many operations as some tokens do, in the ports that multiply.
template <class Format>
struct ExpandedScales {
  using Sizes = PackedSizes<Format>;
  static constexpr int kOfPart = Sizes::kMinimum ? 2 : 1;  // vectors
  static constexpr int kOfPanel = Sizes::kParts * kOfPart;
  static constexpr int kFloats = 16 * kPanels * kOfPanel;  // of a group

  template <int part>
  QUIRE_ALWAYS_INLINE static __m512 scale(Panels& panels, int p, int) {
    renew(panels.scales);
    return _mm512_load_ps(panels.scales + 16 * (p * kOfPanel + part * kOfPart));
  }
  template <int part>
  QUIRE_ALWAYS_INLINE static __m512 minimum(Panels& panels, int p, int) {
    renew(panels.scales);
    return _mm512_load_ps(panels.scales + 16 * (p * kOfPanel + part * kOfPart + 1));
  }
  static void expand(const MatmulArgs& args, Panels panels, float* to) {
    for (int column = 0; column < args.columns; column += Sizes::kColumns) {
      for (int group = 0; group < Sizes::kGroups; ++group) {
        for (const std::byte* record : panels.at) {
          unroll<Sizes::kParts>([&](auto part) LAMBDA {
            constexpr int kPart = decltype(part)::kValue;
            const std::byte* scales = record + Sizes::kCodeBytes;
            _mm512_store_ps(to, load_scale<Format, kPart>(scales, group));
            if constexpr (Sizes::kMinimum)
              _mm512_store_ps(to + 16, load_minimum<Format, kPart>(scales, group));
            to += 16 * kOfPart;
          });
        }
      }
      for (const std::byte*& at : panels.at) at += Sizes::kRecordBytes;
    }
  }
};

// Adds quads [first_quad, first_quad + 32 / parts / 4) of a group to the tile's sums.
template <class Format, class Scales, int part, int panels, int tokens>
QUIRE_ALWAYS_INLINE inline void add_part(Panels& records, int group,
                                         const ActivationGroup* activations, std::int64_t stride,
                                         Sums<panels, tokens>& sums) {
  using Sizes = PackedSizes<Format>;
  constexpr int kQuads = 8 / Sizes::kParts;
  __m512i dots[panels][tokens];
  unroll<tokens>([&](auto t) LAMBDA {
    unroll<panels>([&](auto p)
                       LAMBDA { dots[p][t] = load_start<Format, part>(activations[t * stride]); });
  });
  unroll<kQuads>([&](auto q) LAMBDA {
    // Quads v and v + 4 share a vector of nibbles: one after the other, so that it need not be
    // kept.
    constexpr int i = decltype(q)::kValue;
    constexpr int quad = kQuads == 8 ? i / 2 + i % 2 * 4 : i + part * kQuads;
    __m512i codes[panels];
    unroll<panels>([&](auto p) LAMBDA {
      renew(records.at[p]);
      codes[p] = load_codes<Format, quad>(records.at[p] + group * Sizes::kGroupBytes);
    });
    unroll<tokens>([&](auto t) LAMBDA {
      std::int32_t four;
      __builtin_memcpy(&four, activations[t * stride].codes + 4 * quad, sizeof four);
      const __m512i others = _mm512_set1_epi32(four);
      unroll<panels>(
          [&](auto p) LAMBDA { dots[p][t] = _mm512_dpbusd_epi32(dots[p][t], codes[p], others); });
    });
  });
  __m512 scales[panels];
  unroll<panels>([&](auto p)
                     LAMBDA { scales[p] = Scales::template scale<part>(records, p, group); });
  unroll<tokens>([&](auto t) LAMBDA {
    const __m512 activation_scale = _mm512_set1_ps(activations[t * stride].scale);
    unroll<panels>([&](auto p) LAMBDA {
      const __m512 scale = _mm512_mul_ps(scales[p], activation_scale);
      sums[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[p][t]), scale, sums[p][t]);
    });
  });
  if constexpr (Sizes::kMinimum) {
    __m512 minimums[panels];
    unroll<panels>([&](auto p)
                       LAMBDA { minimums[p] = Scales::template minimum<part>(records, p, group); });
    unroll<tokens>([&](auto t) LAMBDA {
      const ActivationGroup& a = activations[t * stride];
      const __m512 sum = _mm512_set1_ps(Sizes::kParts == 2 ? a.part_sum[part] : a.sum);
      unroll<panels>([&](auto p) LAMBDA {
        sums[p][t] = Sizes::kSubtracts ? _mm512_fnmadd_ps(minimums[p], sum, sums[p][t])
                                       : _mm512_fmadd_ps(minimums[p], sum, sums[p][t]);
      });
    });
  }
}

template <class Format, class Scales = PackedScales<Format>>
struct IntegerProduct : GroupActivations, PackedWeights<Format>, Scales {
  // Scales of two factors are worth it; others are one conversion.
  static constexpr bool kExpands = PackedSizes<Format>::kGroups == 8;
  static constexpr int kScaleFloats =
      kExpands ? ExpandedScales<Format>::kFloats * kStripUnit / kGroup : 0;
  using Repeated =
      IntegerProduct<Format, std::conditional_t<kExpands, ExpandedScales<Format>, Scales>>;
  static constexpr int kTokens = kTile<Format>;
  static constexpr int kStreamTokens = kStreamTile<Format>;

  template <int panels, int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, Panels from, int first_token,
                                      Sums<panels, tokens>& sums) {
    using Sizes = PackedSizes<Format>;
    const ActivationGroup* activations = args.groups + first_token * args.group_stride;
    const std::int64_t stride = args.group_stride;
    for (int column = 0; column < args.columns; column += Sizes::kColumns) {
      for (int group = 0; group < Sizes::kGroups; ++group) {
        unroll<panels>([&](auto p) LAMBDA {
          if (!from.ahead[p]) return;
          constexpr int kBytes = Sizes::kRecordBytes / Sizes::kGroups;
          fetch<panels, kBytes>(from.ahead[p]);
          from.ahead[p] += kBytes;
        });
        unroll<Sizes::kParts>([&](auto part) LAMBDA {
          add_part<Format, Scales, decltype(part)::kValue, panels, tokens>(from, group, activations,
                                                                           stride, sums);
        });
        ++activations;
        if constexpr (Scales::kFloats > 0) from.scales += Scales::kFloats;
      }
      unroll<panels>([&](auto p) LAMBDA { from.at[p] += Sizes::kRecordBytes; });
    }
  }
};

}  // namespace

void multiply_avx512_integer(const MatmulArgs& args) {
  visit_packed_format(args.type,
                      [&]<class Format>() { multiply_all<IntegerProduct<Format>>(args); });
}

}  // namespace quire::cpu
