#pragma once

#include "cpu/matmul_kernels.h"

namespace quire::cpu {

// Adds the products of a panel of BF16 weights, in pairs or tiles as args.form says, with the
// activations of one token, rounded to bfloat16: the plain reference. sums is [16].
void add_bfloat_scalar(const MatmulArgs& args, const std::byte* panel, int token, float* sums);

}  // namespace quire::cpu
