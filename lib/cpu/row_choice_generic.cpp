#include "cpu/row_choice.h"

namespace quire::cpu {

extern const RowKernels kScalarRowKernels;

const RowKernels& row_kernels(Isa) {
  return kScalarRowKernels;
}

}  // namespace quire::cpu
