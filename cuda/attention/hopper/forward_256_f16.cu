#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel half_forward_kernel_256(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward256Capped, true, __half>()
                         : forward_instance<Forward256, false, __half>();
}

}  // namespace quire::cuda::hopper
