#include "matmul/product_kernels.cuh"

namespace quire::cuda {
template ProductKernels product_kernels<WeightKind::code4_offset>();
}  // namespace quire::cuda
