#pragma once

#include <cstddef>

#include "attention/paged_attention.h"

namespace quire::cuda {

// Attention of long stretches of rows on GPUs of compute capability 9.0: its bulk tensor copies and
// asynchronous products (FlashAttention-3, Shah et al. 2024), over the pages in place.
//
// A row's bits depend on its own query, keys and values alone, but differ from those of the
// portable kernels; so rows of one prompt have to come here whatever their number where bits
// matter.

struct HopperOptions {
  bool causal = true;            // false: every row sees all keys of its sequence
  float* log_sum_exp = nullptr;  // [heads][total_rows], natural, with the sink; or null
  int least_rows = 0;  // sequences with fewer rows are left out: their output is not written
  // What list_hopper_tiles made, so that a pass does it once for its layers; null: made within the
  // call, in its workspace. Calls that share a list run one after the other.
  std::byte* tiles = nullptr;
};

// Whether hopper_attention can compute the call on a device of this compute capability (9.0 as 90):
// keys and values in bf16 or f16, head size 64, 96, 128, 192 or 256, or in fp8, head size 64 or
// 128, pages of 16 tokens or more, a positive scale.
bool hopper_attention_takes(int compute_capability, const PagedAttentionCall& call);

// Which sequences of a call are better computed here, and which by the portable kernels.
struct HopperShare {
  int least_rows = 0;  // sequences with so many rows or more; 0: none
  bool all = false;    // no sequence is left to the portable kernels
};
// None where bits have to be those of the portable kernels (launch.deterministic), or where there
// are too few tiles to occupy the device.
HopperShare hopper_share(const Launch& launch, const PagedAttentionCall& call);

// Bytes of workspace, or of a list of tiles, that any call within these limits needs.
std::size_t hopper_workspace_bytes(int max_rows, int max_sequences, int kv_heads);

// Fills options.tiles, of hopper_workspace_bytes; uses of the call the sequences, the numbers of
// heads, the KV view, the window and whether there is a cap.
Status list_hopper_tiles(const Launch& launch, const PagedAttentionCall& call,
                         const HopperOptions& options);

// As paged_attention, with call.plan unused. Errors: unsupported for a call that
// hopper_attention_takes does not accept.
Status hopper_attention(const Launch& launch, const PagedAttentionCall& call,
                        const HopperOptions& options = {});

}  // namespace quire::cuda
