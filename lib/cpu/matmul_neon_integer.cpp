#include "cpu/matmul_neon_integer_impl.h"

// Without dot products: bytes are multiplied to 16 bits, two quads are summed there, and pairs of
// columns in 32 bits.

namespace quire::cpu {
namespace {

struct WideningMultiplier {
  static constexpr int kTokens = 2;

  template <class Format, int part, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply(const std::byte* group,
                                           const ActivationGroup* activations, std::int64_t stride,
                                           Dots<tokens>& dots) {
    constexpr int kQuads = 8 / PackedSizes<Format>::kParts;
    unroll<kHalf>([&](auto v) LAMBDA {
      int32x4_t pairs[2][tokens];  // of rows 0 and 1, of rows 2 and 3
      unroll<tokens>([&](auto t) LAMBDA { pairs[0][t] = pairs[1][t] = vdupq_n_s32(0); });
      unroll<kQuads / 2>([&](auto q) LAMBDA {
        constexpr int quad = decltype(q)::kValue * 2 + part * kQuads;
        renew(group);
        const int8x16_t first = load_codes<Format, quad>(group + 16 * v);
        renew(group);
        const int8x16_t second = load_codes<Format, quad + 1>(group + 16 * v);
        unroll<tokens>([&](auto t) LAMBDA {
          renew(activations);
          const std::int8_t* codes = activations[t * stride].codes + 4 * quad;
          const int8x8_t a = four_twice(codes), b = four_twice(codes + 4);
          const int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(first), a), vget_low_s8(second), b);
          const int16x8_t high =
              vmlal_s8(vmull_s8(vget_high_s8(first), a), vget_high_s8(second), b);
          pairs[0][t] = vpadalq_s16(pairs[0][t], low);
          pairs[1][t] = vpadalq_s16(pairs[1][t], high);
        });
      });
      unroll<tokens>([&](auto t) LAMBDA {
        dots[v][t] = vaddq_s32(dots[v][t], vpaddq_s32(pairs[0][t], pairs[1][t]));
      });
    });
  }

 private:
  QUIRE_ALWAYS_INLINE static int8x8_t four_twice(const std::int8_t* codes) {
    std::uint32_t four;
    __builtin_memcpy(&four, codes, sizeof four);
    return vreinterpret_s8_u32(vdup_n_u32(four));
  }
};

}  // namespace

void multiply_neon_integer(const MatmulArgs& args) {
  visit_packed_format(args.type, [&]<class Format>() {
    multiply_all<IntegerProduct<WideningMultiplier, Format>>(args);
  });
}

}  // namespace quire::cpu
