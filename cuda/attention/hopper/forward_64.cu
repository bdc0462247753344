#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_64(bool soft_cap, bool short_rows) {
  if (soft_cap) return forward_instance<Forward64Short, true>();
  if (short_rows) return forward_instance<Forward64Short, false>();
  return forward_instance<Forward64, false>();
}

}  // namespace quire::cuda::hopper
