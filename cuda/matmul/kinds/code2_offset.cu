#include "matmul/product_kernels.cuh"

namespace quire::cuda {
template ProductKernels product_kernels<WeightKind::code2_offset>();
}  // namespace quire::cuda
