#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel fp8_forward_kernel_64(const ForwardChoice& choice) {
  if (choice.soft_cap) return forward_instance<Fp8Forward64Short, true, __nv_fp8_e4m3>();
  if (choice.short_rows) return forward_instance<Fp8Forward64Short, false, __nv_fp8_e4m3>();
  return forward_instance<Fp8Forward64, false, __nv_fp8_e4m3>();
}

}  // namespace quire::cuda::hopper
