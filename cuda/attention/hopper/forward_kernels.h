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

// What decides between the kernels of a head size and type.
struct ForwardChoice {
  bool soft_cap = false;
  bool short_rows = false;  // sequences of few rows; matters in fp8
};

// In small files, for the compile time. Keys and values in bf16:
ForwardKernel forward_kernel_64(const ForwardChoice& choice);
ForwardKernel forward_kernel_96(const ForwardChoice& choice);
ForwardKernel forward_kernel_128(const ForwardChoice& choice);
ForwardKernel forward_kernel_192(const ForwardChoice& choice);
ForwardKernel forward_kernel_256(const ForwardChoice& choice);
// In float16:
ForwardKernel half_forward_kernel_64(const ForwardChoice& choice);
ForwardKernel half_forward_kernel_96(const ForwardChoice& choice);
ForwardKernel half_forward_kernel_128(const ForwardChoice& choice);
ForwardKernel half_forward_kernel_192(const ForwardChoice& choice);
ForwardKernel half_forward_kernel_256(const ForwardChoice& choice);
// In fp8:
ForwardKernel fp8_forward_kernel_64(const ForwardChoice& choice);
ForwardKernel fp8_forward_kernel_128(const ForwardChoice& choice);

// For the keys that sequences share, see prefix.h.
ForwardKernel prefix_kernel_64();
ForwardKernel prefix_kernel_128();

// list_hopper_tiles and hopper_attention with a kernel of the caller's choice, which has to fit the
// call.
Status list_forward_tiles(const Launch& launch, const PagedAttentionCall& call,
                          const HopperOptions& options, const ForwardKernel& kernel);
Status launch_forward(const Launch& launch, const PagedAttentionCall& call,
                      const HopperOptions& options, const ForwardKernel& kernel);

}  // namespace quire::cuda::hopper
