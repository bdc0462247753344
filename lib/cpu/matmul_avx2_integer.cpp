#include "cpu/matmul_avx2_integer_impl.h"

// Small unsigned codes are multiplied by vpmaddubsw and summed in 16 bits as long as these cannot
// overflow; 8-bit codes would saturate there, so their magnitudes are multiplied by activations
// that carry both signs.

namespace quire::cpu {
namespace {

// Whether codes, less an offset of 128, are multiplied as signed numbers.
template <class Format>
constexpr bool kSignedCodes = Format::kOffsetShift == 7;

// Quads whose products fit a sum of 16 bits.
template <class Format>
constexpr int kQuadsOf16Bits = 32767 / (2 * 127 * Format::kLargestCode);

alignas(32) constexpr std::int16_t kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

struct MaddubsDots {
  // Tables, masks for planes of bits and 16-bit sums leave registers for three tokens only.
  template <class Format>
  static constexpr int kTokens =
      Format::kTable != CodeTable::none || Format::kCodes == CodeForm::nibbles_2 ? 3 : 4;

  template <class Format, int part, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply(const std::byte* group,
                                           const ActivationGroup* activations, std::int64_t stride,
                                           __m256i (&dots)[tokens]) {
    constexpr int kQuads = 8 / PackedSizes<Format>::kParts;
    constexpr int kStep = kSignedCodes<Format>              ? 1
                          : kQuadsOf16Bits<Format> < kQuads ? kQuadsOf16Bits<Format>
                                                            : kQuads;
    static_assert(kStep >= 1 && kQuads % kStep == 0);
    unroll<kQuads / kStep>([&](auto step) LAMBDA {
      constexpr int first = decltype(step)::kValue * kStep;
      __m256i sums[tokens];
      unroll<kStep>([&](auto q) LAMBDA {
        renew(group);
        multiply_quad<Format, kQuad<Format, part, first + decltype(q)::kValue>,
                      decltype(q)::kValue == 0, tokens>(group, activations, stride, sums);
      });
      const std::int16_t* from = kOnes;
      renew(from);
      const __m256i ones = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
      unroll<tokens>([&](auto t) LAMBDA {
        const __m256i four = _mm256_madd_epi16(sums[t], ones);
        if constexpr (first > 0) {
          dots[t] = in_order(_mm256_add_epi32(dots[t], four));
        } else if constexpr (Format::kOffsetShift >= 0 && !kSignedCodes<Format>) {
          dots[t] =
              in_order(_mm256_add_epi32(four, load_start<Format, part>(activations[t * stride])));
        } else {
          dots[t] = four;
        }
      });
    });
  }

 private:
  // The products of one quad of columns in 16 bits, two columns each; the first quad of a step
  // begins the sums.
  template <class Format, int quad, bool begins, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply_quad(const std::byte* group,
                                                const ActivationGroup* activations,
                                                std::int64_t stride, __m256i (&sums)[tokens]) {
    const __m256i codes = kSignedCodes<Format> ? load_signed_codes<Format, quad>(group)
                                               : load_codes<Format, quad>(group);
    const __m256i magnitudes = kSignedCodes<Format> ? _mm256_abs_epi8(codes) : codes;
    unroll<tokens>([&](auto t) LAMBDA {
      __m256i others = broadcast_quad(activations[t * stride], quad);
      if constexpr (kSignedCodes<Format>) others = _mm256_sign_epi8(others, codes);
      const __m256i products = _mm256_maddubs_epi16(magnitudes, others);
      if constexpr (begins) {
        sums[t] = products;
      } else {
        sums[t] = in_order(_mm256_add_epi16(sums[t], products));
      }
    });
  }
};

}  // namespace

void multiply_avx2_integer(const MatmulArgs& args) {
  visit_packed_format(
      args.type, [&]<class Format>() { multiply_all<IntegerProduct<MaddubsDots, Format>>(args); });
}

}  // namespace quire::cpu
