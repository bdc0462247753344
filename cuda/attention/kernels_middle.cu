#include "attention/instances.cuh"

namespace quire::cuda {

AttentionKernels middle_head_kernels(KvType type, int head_size) {
  return instance_of<96, 128>(type, head_size);
}

}  // namespace quire::cuda
