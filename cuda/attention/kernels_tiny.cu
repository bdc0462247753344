#include "attention/instances.cuh"

namespace quire::cuda {

AttentionKernels tiny_head_kernels(KvType type, int head_size) {
  return instance_of<16, 24, 32>(type, head_size);
}

}  // namespace quire::cuda
