#pragma once

#include <quire/engine_options.h>

#include "attention/hopper/decode_args.h"

namespace quire::cuda::hopper {

// A kernel of small tiles with what its launch needs.
struct DecodeKernel {
  void (*kernel)(DecodeArgs) = nullptr;
  int threads = 0;
  int shared_bytes = 0;
  int blocks_per_sm = 0;
  int row_bytes = 0;  // of shared memory, see kv_map
};

// Kernel null for types outside.
DecodeKernel decode_kernel_64(KvType type);
DecodeKernel decode_kernel_96(KvType type);
DecodeKernel decode_kernel_128(KvType type);
DecodeKernel decode_kernel_192(KvType type);
DecodeKernel decode_kernel_256(KvType type);

}  // namespace quire::cuda::hopper
