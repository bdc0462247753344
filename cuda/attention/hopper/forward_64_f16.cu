#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel half_forward_kernel_64(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward64Capped, true, __half>()
                         : forward_instance<Forward64, false, __half>();
}

}  // namespace quire::cuda::hopper
