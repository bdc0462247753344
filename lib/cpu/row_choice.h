#pragma once

#include "cpu/matmul.h"
#include "cpu/pair_kernels.h"
#include "cpu/row_kernels.h"

namespace quire::cpu {

// The row kernels of an instruction set that this processor supports; without x86 there are only
// the scalar ones.
const RowKernels& row_kernels(Isa isa);
// Null for a set without bf16 products.
const PairKernels* pair_kernels(Isa isa);

}  // namespace quire::cpu
