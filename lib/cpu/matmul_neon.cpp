#include "cpu/activation_sums.h"
#include "cpu/matmul_neon_tile.h"
#include "cpu/packed_format.h"

namespace quire::cpu {

void multiply_neon(const MatmulArgs& args) {
  switch (args.form) {
    case MatmulForm::integer:
      return multiply_neon_integer(args);
    case MatmulForm::expanded:
      return multiply_neon_expanded(args);
    case MatmulForm::plain:
      return multiply_neon_plain(args);
    case MatmulForm::bfloat_pairs:
    case MatmulForm::bfloat_tiles:
      return multiply_scalar(args);  // no matrix is packed so for this instruction set
  }
}

void quantise_row_neon(const float* values, int columns, ActivationGroup* to, int groups) {
  constexpr int kCount = kGroup / kLanes;
  for (int group = 0; group < groups; ++group, columns -= kGroup) {
    float copied[kGroup] = {};
    const float* from = copied;
    if (columns >= kGroup) {
      from = values + group * kGroup;
    } else {
      for (int i = 0; i < columns; ++i) copied[i] = values[group * kGroup + i];
    }
    float32x4_t x[kCount];
    // Magnitudes compare like the integers that hold them, with infinities and NaNs above the rest.
    uint32x4_t largest_bits = vdupq_n_u32(0);
    for (int i = 0; i < kCount; ++i) {
      x[i] = vld1q_f32(from + i * kLanes);
      const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(x[i]), vdupq_n_u32(0x7fffffff));
      largest_bits = vmaxq_u32(largest_bits, bits);
    }
    const std::uint32_t bits = vmaxvq_u32(largest_bits);
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof largest);
    const bool finite = bits < 0x7f800000u;
    const bool zero = finite && largest < kSmallestActivation;
    const float inverse = !finite || zero ? 0.0f : 127.0f / largest;
    const int32x4_t kept = vdupq_n_s32(finite ? -1 : 0);
    ActivationGroup& result = to[group];
    int totals[2] = {0, 0};
    for (int i = 0; i < kCount; ++i) {
      const int32x4_t codes = vandq_s32(kept, vcvtnq_s32_f32(vmulq_n_f32(x[i], inverse)));
      totals[i / 4] += vaddvq_s32(codes);
      std::int32_t four[kLanes];
      vst1q_s32(four, codes);
      for (int lane = 0; lane < kLanes; ++lane) {
        result.codes[i * kLanes + lane] = static_cast<std::int8_t>(four[lane]);
      }
    }
    set_sums(result, largest, finite, zero, totals);
  }
}

}  // namespace quire::cpu
