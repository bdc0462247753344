#include "cpu/matmul_avx2_integer_impl.h"

// AVX-VNNI: vpdpbusd on 256-bit registers. What it does not change runs as on AVX2.

namespace quire::cpu {
namespace {

// Made where it is needed: a zero that is kept would take a register.
QUIRE_ALWAYS_INLINE inline __m256i zero() {
  __m256i made;
  asm volatile("vpxor %0, %0, %0" : "=x"(made));
  return made;
}

struct VnniDots {
  // Tables, and the masks of types with halves of a group, leave registers for fewer tokens.
  template <class Format>
  static constexpr int kTokens = PackedSizes<Format>::kParts == 2    ? 4
                                 : Format::kTable != CodeTable::none ? 5
                                                                     : 6;

  template <class Format, int part, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply(const std::byte* group,
                                           const ActivationGroup* activations, std::int64_t stride,
                                           __m256i (&dots)[tokens]) {
    unroll<tokens>([&](auto t) LAMBDA {
      if constexpr (Format::kOffsetShift >= 0) {
        dots[t] = load_start<Format, part>(activations[t * stride]);
      } else {
        dots[t] = zero();
      }
    });
    unroll<8 / PackedSizes<Format>::kParts>([&](auto q) LAMBDA {
      constexpr int quad = kQuad<Format, part, decltype(q)::kValue>;
      renew(group);
      const __m256i codes = load_codes<Format, quad>(group);
      unroll<tokens>([&](auto t) LAMBDA {
        dots[t] =
            _mm256_dpbusd_avx_epi32(dots[t], codes, broadcast_quad(activations[t * stride], quad));
      });
    });
  }
};

}  // namespace

void multiply_avx_vnni(const MatmulArgs& args) {
  if (args.form != MatmulForm::integer) return multiply_avx2(args);
  visit_packed_format(
      args.type, [&]<class Format>() { multiply_all<IntegerProduct<VnniDots, Format>>(args); });
}

}  // namespace quire::cpu
