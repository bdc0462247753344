#include "cpu/row_choice.h"

namespace quire::cpu {

extern const RowKernels kScalarRowKernels, kAvx2RowKernels, kAvx512RowKernels;
extern const PairKernels kAvx512Bf16PairKernels;

const RowKernels& row_kernels(Isa isa) {
  switch (isa) {
    case Isa::scalar:
    case Isa::neon:
    case Isa::dotprod:
    case Isa::i8mm:
      return kScalarRowKernels;
    case Isa::avx2:
    case Isa::avx_vnni:
      return kAvx2RowKernels;
    case Isa::avx512:
    case Isa::avx512_bf16:
    case Isa::amx_int8:
    case Isa::amx:
      return kAvx512RowKernels;
  }
  return kScalarRowKernels;
}

const PairKernels* pair_kernels(Isa isa) {
  switch (isa) {
    case Isa::avx512_bf16:
    case Isa::amx_int8:
    case Isa::amx:
      return &kAvx512Bf16PairKernels;
    default:
      return nullptr;
  }
}

}  // namespace quire::cpu
