#pragma once

#include "matmul/few_tokens.cuh"
#include "matmul/many_tokens.cuh"

namespace quire::cuda {

template <WeightKind kKind>
ProductKernels product_kernels() {
  const auto address = [](void (*kernel)(ProductArgs)) {
    return reinterpret_cast<const void*>(kernel);
  };
  return {{address(few_tokens<kKind, 1>), address(few_tokens<kKind, 2>)},
          {address(many_tokens<kKind, 4>), address(many_tokens<kKind, 8>)}};
}

}  // namespace quire::cuda
