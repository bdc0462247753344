#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_bf16.h>

#include <quire/status.h>

namespace quire::cuda {

// The map by which bulk copies take boxes of `box_rows` rows x 64 columns of a matrix [rows]
// [columns], swizzled by 128 bytes; zeros past its edges. Rows are whole 16-byte pieces.
Result<CUtensorMap> tensor_map(const __nv_bfloat16* matrix, std::int64_t rows, std::int64_t columns,
                               int box_rows);

// The maps of a launch of wide_tokens or stream_tokens.
struct WideMaps {
  CUtensorMap input;       // boxes of a tile's tokens
  CUtensorMap weights[3];  // of the parts, if they are bfloat: boxes of half a unit
};

}  // namespace quire::cuda
