#include "attention/hopper/forward.cuh"

namespace quire::cuda::hopper {

ForwardKernel forward_kernel_64(const ForwardChoice& choice) {
  if (choice.soft_cap) return forward_instance<Forward64Short, true>();
  if (choice.short_rows) return forward_instance<Forward64Short, false>();
  return forward_instance<Forward64, false>();
}

ForwardKernel prefix_kernel_64() {
  return forward_instance<Prefix64, false>();
}

}  // namespace quire::cuda::hopper
