#pragma once

#include <cstddef>

#include <cuda_bf16.h>

#include "attention/kv_view.h"
#include "base/launch.h"

namespace quire::cuda {

// Softmax attention of the pass's queries over the paged keys and values (PagedAttention, Kwon et
// al. 2023; online softmax in tiles, Dao et al. 2022). A row at position p sees keys 0 ... p of its
// sequence (causal, bottom-right aligned), with a window those at a distance below it.
struct PagedAttentionCall {
  const __nv_bfloat16* query = nullptr;  // [total_rows][heads][head_size]
  __nv_bfloat16* output = nullptr;       // same shape; does not alias query
  KvView kv;
  SequenceTable sequences;
  int heads = 0;                 // a multiple of kv.kv_heads
  int window = 0;                // 0: all before
  float scale = 1;               // of query . key
  float soft_cap = 0;            // c * tanh(score / c) if > 0
  const float* sinks = nullptr;  // [heads]: a logit that takes part in the softmax, or null
  std::byte* workspace = nullptr;  // of attention_workspace_bytes
};

// Bytes of workspace that any call within these limits needs.
std::size_t attention_workspace_bytes(int max_rows, int max_sequences, int heads, int head_size,
                                      int max_keys, int multiprocessors);

// Errors: unsupported for a head size outside 64, 80, 96, 128, 192, 256 (and the small ones of test
// models, 16 and 32), both numbers named.
Status paged_attention(const Launch& launch, const PagedAttentionCall& call);

}  // namespace quire::cuda
