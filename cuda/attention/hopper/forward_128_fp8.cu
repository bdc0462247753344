#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel fp8_forward_kernel_128(const ForwardChoice& choice) {
  return choice.soft_cap ? forward_instance<Fp8Forward128, true, __nv_fp8_e4m3>()
                         : forward_instance<Fp8Forward128, false, __nv_fp8_e4m3>();
}

}  // namespace quire::cuda::hopper
