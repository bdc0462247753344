#include "cpu/matmul_neon_dotprod.h"

// smmla: 2 rows by 8 columns with 2 tokens. Odd numbers of tokens use dot products: integers are
// the same.

namespace quire::cpu {
namespace {

struct MatrixMultiplier {
  static constexpr int kTokens = 4;

  template <class Format, int part, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply(const std::byte* group,
                                           const ActivationGroup* activations, std::int64_t stride,
                                           Dots<tokens>& dots) {
    if constexpr (tokens % 2 == 1) {
      DotMultiplier::multiply<Format, part, tokens>(group, activations, stride, dots);
    } else {
      multiply_pairs<Format, part, tokens>(group, activations, stride, dots);
    }
  }

 private:
  template <class Format, int part, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply_pairs(const std::byte* group,
                                                 const ActivationGroup* activations,
                                                 std::int64_t stride, Dots<tokens>& dots) {
    constexpr int kEights = 4 / PackedSizes<Format>::kParts;
    int32x4_t squares[kHalf][2][tokens / 2];  // of rows 2 r and 2 r + 1 and tokens 2 t and 2 t + 1
    unroll<kHalf>([&](auto v) LAMBDA {
      unroll<tokens / 2>([&](auto t) LAMBDA {
        squares[v][0][t] = squares[v][1][t] = vzip1q_s32(dots[v][2 * t], dots[v][2 * t + 1]);
      });
    });
    unroll<kEights>([&](auto e) LAMBDA {
      constexpr int eight = decltype(e)::kValue + part * kEights;
      int8x16_t others[tokens / 2];
      unroll<tokens / 2>([&](auto t) LAMBDA {
        others[t] = vcombine_s8(vld1_s8(activations[2 * t * stride].codes + 8 * eight),
                                vld1_s8(activations[(2 * t + 1) * stride].codes + 8 * eight));
      });
      unroll<kHalf>([&](auto v) LAMBDA {
        renew(group);
        const int32x4_t first = vreinterpretq_s32_s8(load_codes<Format, 2 * eight>(group + 16 * v));
        renew(group);
        const int32x4_t second =
            vreinterpretq_s32_s8(load_codes<Format, 2 * eight + 1>(group + 16 * v));
        const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(first, second));
        const int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(first, second));
        unroll<tokens / 2>([&](auto t) LAMBDA {
          squares[v][0][t] = vmmlaq_s32(squares[v][0][t], low, others[t]);
          squares[v][1][t] = vmmlaq_s32(squares[v][1][t], high, others[t]);
        });
      });
    });
    unroll<kHalf>([&](auto v) LAMBDA {
      unroll<tokens / 2>([&](auto t) LAMBDA {
        dots[v][2 * t] = vuzp1q_s32(squares[v][0][t], squares[v][1][t]);
        dots[v][2 * t + 1] = vuzp2q_s32(squares[v][0][t], squares[v][1][t]);
      });
    });
  }
};

}  // namespace

void multiply_i8mm(const MatmulArgs& args) {
  if (args.form != MatmulForm::integer) return multiply_neon(args);
  visit_packed_format(args.type, [&]<class Format>() {
    multiply_all<IntegerProduct<MatrixMultiplier, Format>>(args);
  });
}

}  // namespace quire::cpu
