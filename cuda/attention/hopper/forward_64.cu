#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_64(bool soft_cap) {
  return soft_cap ? forward_instance<Forward64Capped, true>()
                  : forward_instance<Forward64, false>();
}

}  // namespace quire::cuda::hopper
