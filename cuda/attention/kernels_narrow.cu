#include "attention/instances.cuh"

namespace quire::cuda {

AttentionKernels narrow_head_kernels(KvType type, int head_size) {
  return instance_of<64, 80>(type, head_size);
}

}  // namespace quire::cuda
