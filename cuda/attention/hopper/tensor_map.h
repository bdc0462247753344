#pragma once

#include <cstddef>

#include <cuda.h>
#include <cuda_bf16.h>

#include <quire/status.h>

#include "attention/kv_view.h"

namespace quire::cuda::hopper {

// Rows of shared memory are of 128 or 64 bytes, swizzled. `row_bytes`: which.

// Queries [rows][heads][head_size], in boxes of one row's bytes of neighbouring heads and rows, row
// by row. Coordinates: element, head, row.
struct QueryBox {
  int heads = 1, rows = 0;
};
Status query_map(CUtensorMap& map, const __nv_bfloat16* queries, int rows, int heads, int head_size,
                 const QueryBox& box, int row_bytes);

// Keys and values of a layer in the pages, in boxes of all elements of `box_tokens` tokens of one
// head, which become [tokens / 8][parts][8][row_bytes] in shared memory. Coordinates: 0, 0, 0,
// eight tokens (counted through the heads of keys, then of values), page. Page -1 gives zeros.
constexpr int kAtomRows = 8;
// The largest box of which a block of keys and a page are both a whole number.
int box_tokens(int page_size, int block_keys);
Status kv_map(CUtensorMap& map, const KvView& kv, int box_tokens, int row_bytes);

}  // namespace quire::cuda::hopper
