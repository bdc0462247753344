#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_192(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Forward192Capped, true>()
                         : forward_instance<Forward192, false>();
}

}  // namespace quire::cuda::hopper
