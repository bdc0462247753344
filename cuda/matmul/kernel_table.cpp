#include "matmul/kernel_table.h"

namespace quire::cuda {

ProductKernels kernels_of(WeightKind kind) {
  switch (kind) {
    case WeightKind::bfloat:
      return product_kernels<WeightKind::bfloat>();
    case WeightKind::float32:
      return product_kernels<WeightKind::float32>();
    case WeightKind::code8:
      return product_kernels<WeightKind::code8>();
    case WeightKind::code4:
      return product_kernels<WeightKind::code4>();
    case WeightKind::code4_offset:
      return product_kernels<WeightKind::code4_offset>();
    case WeightKind::code4_table:
      return product_kernels<WeightKind::code4_table>();
    case WeightKind::code5:
      return product_kernels<WeightKind::code5>();
    case WeightKind::code5_offset:
      return product_kernels<WeightKind::code5_offset>();
    case WeightKind::code6:
      return product_kernels<WeightKind::code6>();
    case WeightKind::code3:
      return product_kernels<WeightKind::code3>();
    case WeightKind::code2_offset:
      return product_kernels<WeightKind::code2_offset>();
  }
  return {};
}

}  // namespace quire::cuda
