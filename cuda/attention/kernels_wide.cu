#include "attention/instances.cuh"

namespace quire::cuda {

AttentionKernels wide_head_kernels(KvType type, int head_size) {
  return instance_of<192, 256>(type, head_size);
}

}  // namespace quire::cuda
