#pragma once

#include "matmul/product_args.h"

namespace quire::cuda {

// The kernels of a kind of weights.
ProductKernels kernels_of(WeightKind kind);

}  // namespace quire::cuda
