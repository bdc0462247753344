#pragma once

#include "cpu/matmul_neon_integer_impl.h"

// Only for files compiled for the dot product instructions.

namespace quire::cpu {
namespace {

// sdot by lane: 4 rows by 4 columns with 4 of the 16 activations in a register.
struct DotMultiplier {
  static constexpr int kTokens = 4;

  template <class Format, int part, int tokens>
  QUIRE_ALWAYS_INLINE static void multiply(const std::byte* group,
                                           const ActivationGroup* activations, std::int64_t stride,
                                           Dots<tokens>& dots) {
    unroll<2 / PackedSizes<Format>::kParts>([&](auto s) LAMBDA {
      constexpr int sixteen = decltype(s)::kValue + part;
      int8x16_t others[tokens];
      unroll<tokens>([&](auto t) LAMBDA {
        others[t] = vld1q_s8(activations[t * stride].codes + 16 * sixteen);
      });
      unroll<4>([&](auto q) LAMBDA {
        constexpr int lane = decltype(q)::kValue;
        unroll<kHalf>([&](auto v) LAMBDA {
          renew(group);
          const int8x16_t codes = load_codes<Format, 4 * sixteen + lane>(group + 16 * v);
          unroll<tokens>([&](auto t) LAMBDA {
            dots[v][t] = vdotq_laneq_s32(dots[v][t], codes, others[t], lane);
          });
        });
      });
    });
  }
};

}  // namespace
}  // namespace quire::cpu
