#pragma once

#include "attention/hopper/forward_args.h"
#include "attention/hopper/hopper_attention.h"
#include "attention/hopper/policy.h"

namespace quire::cuda::hopper {

// A kernel with what its launch needs.
struct ForwardKernel {
  void (*kernel)(ForwardArgs) = nullptr;
  ForwardPolicy policy{};
  int shared_bytes = 0;
};

// Each in a file of its own, for the compile time. `short_rows`: for sequences of few rows.
ForwardKernel forward_kernel_64(bool soft_cap, bool short_rows);
ForwardKernel forward_kernel_128(bool soft_cap);
ForwardKernel forward_kernel_256(bool soft_cap);

// list_hopper_tiles and hopper_attention with a kernel of the caller's choice, which has to fit the
// call.
Status list_forward_tiles(const Launch& launch, const PagedAttentionCall& call,
                          const HopperOptions& options, const ForwardKernel& kernel);
Status launch_forward(const Launch& launch, const PagedAttentionCall& call,
                      const HopperOptions& options, const ForwardKernel& kernel);

}  // namespace quire::cuda::hopper
