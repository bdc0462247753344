#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_256(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward256Capped, true>()
                         : forward_instance<Forward256, false>();
}

}  // namespace quire::cuda::hopper
