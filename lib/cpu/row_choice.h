#pragma once

#include "cpu/matmul.h"
#include "cpu/row_kernels.h"

namespace quire::cpu {

// The row kernels of an instruction set that this processor supports; without x86 there are only
// the scalar ones.
const RowKernels& row_kernels(Isa isa);

}  // namespace quire::cpu
