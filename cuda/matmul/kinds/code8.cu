#include "matmul/product_kernels.cuh"

namespace quire::cuda {
template ProductKernels product_kernels<WeightKind::code8>();
}  // namespace quire::cuda
