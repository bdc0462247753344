#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <vector_types.h>

#include "attention/kv_view.h"
#include "attention/plan.h"

namespace quire::cuda {

// What the kernels of a call are given. Strides in bytes.
struct AttentionArgs {
  const __nv_bfloat16* query;
  __nv_bfloat16* output;
  const std::byte* keys;  // of the layer in page 0, head 0
  std::size_t page_bytes;
  std::uint32_t value_offset;      // from keys to values
  std::uint32_t key_scale_offset;  // from keys of head 0 to scales of head 0; int8 and fp8
  std::uint32_t value_scale_offset;
  int page_shift;
  int heads, kv_heads, group;
  int head_size;
  int window;
  float score_factor;  // to scores in base 2
  float soft_cap;
  float soft_cap_inner;  // scale / soft_cap
  bool fold_splits;      // a softmax for each split; else for each item
  bool plan_is_old;  // made before the last call: may be read before the kernel before has ended
  const float* sinks;
  SequenceTable sequences;
  Plan plan;
  float* partial;  // [partial rows][head_size]
  float2* partial_states;
  float4* carry;  // sums of a large tile's earlier splits, a piece for each thread block
};

}  // namespace quire::cuda
