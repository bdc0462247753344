#pragma once

#include <quire/engine_options.h>

#include "attention/attention_args.h"

namespace quire::cuda {

// The two kernels for a KV type and width of heads, with what their launch needs.
struct TileKernel {
  void (*kernel)(AttentionArgs) = nullptr;
  int threads = 0;
  int shared_bytes = 0;
  int blocks_per_sm = 0;
};
struct AttentionKernels {
  TileKernel small, large;
};

// Of a width of kTileWidths, each in a file of its own; null for KV types that the backend does not
// have.
template <int kWidth>
AttentionKernels tile_kernels(KvType type);

// For heads of a size; null for sizes that no kernel serves.
AttentionKernels attention_kernels(KvType type, int head_size);

}  // namespace quire::cuda
