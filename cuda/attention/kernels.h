#pragma once

#include <quire/engine_options.h>

#include "attention/attention_args.h"

namespace quire::cuda {

// The two kernels for a KV type and head size, with what their launch needs.
struct TileKernel {
  void (*kernel)(AttentionArgs) = nullptr;
  int threads = 0;
  int shared_bytes = 0;
  int blocks_per_sm = 0;
};
struct AttentionKernels {
  TileKernel small, large;
};

// Each in small files of a few head sizes, for the compile time; kernel null for sizes outside.
AttentionKernels tiny_head_kernels(KvType type, int head_size);    // 16, 24, 32
AttentionKernels narrow_head_kernels(KvType type, int head_size);  // 64, 80
AttentionKernels middle_head_kernels(KvType type, int head_size);  // 96, 128
AttentionKernels wide_head_kernels(KvType type, int head_size);    // 192, 256
AttentionKernels attention_kernels(KvType type, int head_size);

}  // namespace quire::cuda
