#pragma once

#include <cstddef>

#include <cuda.h>
#include <cuda_bf16.h>

#include <quire/status.h>

#include "attention/kv_view.h"

namespace quire::cuda::hopper {

// Elements of a row of a box: 128 bytes, swizzled in shared memory.
constexpr int kBoxElements = 64;

// Queries [rows][heads][head_size], in boxes of `box_rows` rows of one head. Coordinates: element,
// head, row.
Status query_map(CUtensorMap& map, const __nv_bfloat16* queries, int rows, int heads, int head_size,
                 int box_rows);

// Keys and values of a layer in the pages, in boxes of `box_rows` tokens of one head. Coordinates:
// element, token of the page, head (values: kv_heads + head), page. Page -1 gives zeros.
Status kv_map(CUtensorMap& map, const KvView& kv, int box_rows);

}  // namespace quire::cuda::hopper
