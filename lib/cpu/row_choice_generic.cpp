#include "cpu/row_choice.h"

namespace quire::cpu {

extern const RowKernels kScalarRowKernels;

const RowKernels& row_kernels(Isa) {
  return kScalarRowKernels;
}

const PairKernels* pair_kernels(Isa) {
  return nullptr;
}

}  // namespace quire::cpu
