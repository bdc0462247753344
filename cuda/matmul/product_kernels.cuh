#pragma once

#include "matmul/expand.cuh"
#include "matmul/few_tokens.cuh"
#include "matmul/many_tokens.cuh"
#include "matmul/stream_tokens.cuh"
#include "matmul/wide_tokens.cuh"

namespace quire::cuda {

template <class... Arguments>
const void* kernel_address(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}

template <WeightKind kKind>
ProductKernels product_kernels() {
  ProductKernels kernels{};
  kernels.few = kernel_address(few_tokens<kKind>);
  kernels.tile[0] = kernel_address(many_tokens<kKind, 4>);
  kernels.tile[1] = kernel_address(many_tokens<kKind, 8>);
  if constexpr (kKind == WeightKind::bfloat) {
    kernels.wide[0] = kernel_address(stream_tokens<4>);
    kernels.wide[1] = kernel_address(stream_tokens<8>);
  } else if constexpr (kKind != WeightKind::float32) {
    kernels.wide[0] = kernel_address(wide_tokens<kKind, 4>);
    kernels.wide[1] = kernel_address(wide_tokens<kKind, 8>);
    kernels.wide[2] = kernel_address(wide_tokens<kKind, 16>);
  }
  if constexpr (kKind != WeightKind::bfloat) {
    kernels.expand = kernel_address(expand_records<kKind>);
  }
  return kernels;
}

}  // namespace quire::cuda
