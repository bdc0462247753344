#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel half_forward_kernel_64(const ForwardChoice& choice) {
  if (choice.soft_cap) return forward_instance<Forward64Short, true, __half>();
  if (choice.short_rows) return forward_instance<Forward64Short, false, __half>();
  return forward_instance<Forward64, false, __half>();
}

}  // namespace quire::cuda::hopper
