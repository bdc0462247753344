#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_64(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward64Capped, true>()
                         : forward_instance<Forward64, false>();
}

ForwardKernel prefix_kernel_64() {
  return forward_instance<Prefix64, false>();
}

}  // namespace quire::cuda::hopper
