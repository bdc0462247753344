#pragma once

#include <cstddef>

#include "matmul/device_matrix.h"
#include "matmul/product.h"

namespace quire::cuda {

// Whether the library's products are the faster ones for a call, and can do it. `scratch_bytes`:
// of the memory given to multiply_by_library.
bool suits_library(const Launch& launch, const ProductCall& call, const DeviceMatrix& matrix,
                   std::size_t scratch_bytes);

// Whether one call of the library can multiply both, as one after the other in memory.
bool are_twins(const DeviceMatrix& matrix, const DeviceMatrix& second);

// Products of one matrix, or of it and its twin (store_float, store_bfloat16, add_residual; no
// bias), by call.library, into columns from out_column on. Weights in records are expanded to
// bfloat16 in `scratch`, some rows after the other.
Status multiply_by_library(const Launch& launch, const ProductCall& call,
                           const DeviceMatrix& matrix, const DeviceMatrix* twin,
                           std::int64_t out_column, std::byte* scratch, std::size_t scratch_bytes,
                           std::byte* library_workspace, std::size_t library_bytes);

}  // namespace quire::cuda
