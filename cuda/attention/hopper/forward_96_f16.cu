#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel half_forward_kernel_96(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward96, true, __half>()
                         : forward_instance<Forward96, false, __half>();
}

}  // namespace quire::cuda::hopper
