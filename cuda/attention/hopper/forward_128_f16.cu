#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel half_forward_kernel_128(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward128, true, __half>()
                         : forward_instance<Forward128, false, __half>();
}

}  // namespace quire::cuda::hopper
