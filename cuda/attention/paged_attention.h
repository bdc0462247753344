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
  const __nv_bfloat16* query = nullptr;  // [total_rows][heads][head_size], as write_kv leaves it
  __nv_bfloat16* output = nullptr;       // same shape; does not alias query
  KvView kv;
  SequenceTable sequences;
  int heads = 0;                   // a multiple of kv.kv_heads
  int window = 0;                  // 0: all before
  float scale = 1;                 // of query . key
  float soft_cap = 0;              // c * tanh(score / c) if > 0
  const float* sinks = nullptr;    // [heads]: a logit that takes part in the softmax, or null
  std::byte* workspace = nullptr;  // of attention_workspace_bytes
  // What plan_attention made for the same sequences, numbers of heads and window, of
  // attention_plan_bytes, so that a pass plans once for its layers; null: made within the call.
  // Calls that share a plan run one after the other.
  std::byte* plan = nullptr;
  // Whether a call with this plan was queued since it was made. Such a call may read the plan, the
  // tables of sequences, and the keys and values before each sequence's first position while the
  // kernel before it still runs.
  bool plan_is_old = false;
};

// Bytes of workspace that any call within these limits needs.
std::size_t attention_workspace_bytes(int max_rows, int max_sequences, int heads, int head_size,
                                      int max_keys, int multiprocessors);

// A plan's bytes within these limits; `plan_attention` fills call.plan and uses nothing else of the
// call than the sequences, the numbers of heads, the KV view and the window.
std::size_t attention_plan_bytes(int max_rows, int max_sequences, int heads, int max_keys,
                                 int multiprocessors);
Status plan_attention(const Launch& launch, const PagedAttentionCall& call);

// With Launch::deterministic a row's bits depend on its own query, keys and values alone: not on
// how a prompt is cut into passes, on the other sequences, or on pages. Without it long prompts
// save themselves the separate softmax of each 512 keys, and the keys of sequences.prefix are read
// once, by rows of all its sequences together (not with a window).
//
// Errors: unsupported for a head size outside 64, 80, 96, 128, 192, 256 (and the small ones of test
// models, 16, 24 and 32), for a KV type other than f16, bf16, int8, fp8, and for a page size other
// than 8 (not in fp8), 16, 32, 64, 128.
Status paged_attention(const Launch& launch, const PagedAttentionCall& call);

}  // namespace quire::cuda
