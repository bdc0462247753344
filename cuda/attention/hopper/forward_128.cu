#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_128(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward128, true>()
                         : forward_instance<Forward128, false>();
}

ForwardKernel prefix_kernel_128() {
  return forward_instance<Prefix128, false>();
}

}  // namespace quire::cuda::hopper
