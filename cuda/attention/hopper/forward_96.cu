#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_96(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward96, true>()
                         : forward_instance<Forward96, false>();
}

}  // namespace quire::cuda::hopper
