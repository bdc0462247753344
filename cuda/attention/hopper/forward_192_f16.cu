#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel half_forward_kernel_192(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward192Capped, true, __half>()
                         : forward_instance<Forward192, false, __half>();
}

}  // namespace quire::cuda::hopper
