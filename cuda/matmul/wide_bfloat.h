#pragma once

namespace quire::cuda {

// The kernel for tiles of 8 token_tiles tokens (2, 4, 8 or 16; null for others), bfloat16 weights,
// compute capability 9.0a. Arguments: ProductArgs, CUtensorMap of the input, WeightMaps.
const void* wide_bfloat_kernel(int token_tiles);

}  // namespace quire::cuda
