#pragma once

#include "cpu/matmul_kernels.h"
#include "cpu/matmul_unroll.h"

namespace quire::cpu {

// Scale and sums of a group whose codes are written: `largest` magnitude, whether all are finite
// and whether that counts as 0; sums of the codes of either half. Always inlined, so that no file
// compiled for an instruction set emits it.
QUIRE_ALWAYS_INLINE inline void set_sums(ActivationGroup& group, float largest, bool finite,
                                         bool zero, const int (&totals)[2]) {
  group.scale = !finite ? __builtin_nanf("") : zero ? 0.0f : largest / 127.0f;
  group.sum = group.scale * static_cast<float>(totals[0] + totals[1]);
  group.minus_total = -(totals[0] + totals[1]);
  for (int part = 0; part < 2; ++part) {
    group.part_sum[part] = group.scale * static_cast<float>(totals[part]);
    group.minus_part[part] = -totals[part];
  }
  group.unused = 0;
}

}  // namespace quire::cpu
