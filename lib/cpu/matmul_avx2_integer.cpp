#include "cpu/matmul_avx2_tile.h"
#include "cpu/matmul_avx2_weights.h"

// 8-bit activations. Small unsigned codes are multiplied by vpmaddubsw and summed in 16 bits as
// long as these cannot overflow; 8-bit codes would saturate there, so their magnitudes are
// multiplied by activations that carry both signs. The sums of one half of a panel fill the
// registers.

namespace quire::cpu {
namespace {

constexpr int kTile = 4;  // tokens

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

}  // namespace

void multiply_avx2_integer(const MatmulArgs& args) {
  visit_packed_format(args.type,
                      [&]<class Format>() { multiply_all<IntegerProduct<Format>>(args); });
}

}  // namespace quire::cpu
