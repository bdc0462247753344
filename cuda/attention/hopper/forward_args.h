#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cuda_bf16.h>
#include <vector_types.h>

#include "attention/hopper/tile_list.h"

namespace quire::cuda::hopper {

struct ForwardArgs {
  CUtensorMap query;
  CUtensorMap kv;
  __nv_bfloat16* output;  // [rows][heads][head_size]
  float* log_sum_exp;     // [heads][rows], or null
  const std::int32_t* pages;
  const std::byte* slab;  // of the layer in page 0, and below what lies in it
  std::size_t page_bytes;
  unsigned value_offset, key_scale_offset, value_scale_offset;
  const float* sinks;  // [heads], or null
  TileList list;
  // Of a prefix.
  float* partial;  // [partial rows][head_size]
  float2* partial_states;
  int query_rows;  // of a whole tile
  int rows;        // of the pass
  int heads, kv_heads, group;
  int heads_per_entry;
  int page_shift;
  int box_shift;  // tokens of a box of keys or values
  int window;     // 0: all before
  bool causal;
  float score_factor;    // to scores in base 2
  float soft_cap;        // in base 2; 0: none
  float soft_cap_inner;  // from scores to twice the argument of tanh, in base 2
};

}  // namespace quire::cuda::hopper
