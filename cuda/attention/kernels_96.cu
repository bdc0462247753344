#include "attention/instances.cuh"

namespace quire::cuda {
template AttentionKernels tile_kernels<96>(KvType type);
}  // namespace quire::cuda
