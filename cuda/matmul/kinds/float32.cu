#include "matmul/product_kernels.cuh"

namespace quire::cuda {
template ProductKernels product_kernels<WeightKind::float32>();
}  // namespace quire::cuda
