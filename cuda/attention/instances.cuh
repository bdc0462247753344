#pragma once

#include "attention/kernels.h"
#include "attention/large_tile.cuh"
#include "attention/small_tile.cuh"

namespace quire::cuda {

template <class Format, int kWidth>
AttentionKernels instance() {
  using Small = SmallTile<Format, kWidth>;
  using Large = LargeTile<Format, kWidth>;
  return {{small_tile_kernel<Format, kWidth>, Small::kThreads, Small::kMemory.total,
           Small::kPolicy.blocks_per_sm},
          {large_tile_kernel<Format, kWidth>, Large::kThreads, Large::kMemory.total,
           Large::kPolicy.blocks_per_sm}};
}

template <int kWidth>
AttentionKernels tile_kernels(KvType type) {
  switch (type) {
    case KvType::bf16:
      return instance<KvFormat<KvType::bf16>, kWidth>();
    case KvType::f16:
      return instance<KvFormat<KvType::f16>, kWidth>();
    case KvType::int8:
      return instance<KvFormat<KvType::int8>, kWidth>();
    case KvType::fp8:
      return instance<KvFormat<KvType::fp8>, kWidth>();
    default:
      return {};
  }
}

}  // namespace quire::cuda
