#include "matmul/product_kernels.cuh"

namespace quire::cuda {
template ProductKernels product_kernels<WeightKind::bfloat>();
}  // namespace quire::cuda
