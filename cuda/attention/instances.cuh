#pragma once

#include "attention/kernels.h"
#include "attention/large_tile.cuh"
#include "attention/small_tile.cuh"

namespace quire::cuda {

template <class Format, int kHeadSize>
AttentionKernels instance() {
  using Small = SmallTile<Format, kHeadSize>;
  using Large = LargeTile<Format, kHeadSize>;
  return {{small_tile_kernel<Format, kHeadSize>, Small::kThreads, Small::kMemory.total,
           Small::kPolicy.blocks_per_sm},
          {large_tile_kernel<Format, kHeadSize>, Large::kThreads, Large::kMemory.total,
           Large::kPolicy.blocks_per_sm}};
}

template <class Format, int... kHeadSizes>
AttentionKernels instance_of(int head_size) {
  AttentionKernels kernels;
  ((head_size == kHeadSizes ? void(kernels = instance<Format, kHeadSizes>()) : void()), ...);
  return kernels;
}

template <int... kHeadSizes>
AttentionKernels instance_of(KvType type, int head_size) {
  switch (type) {
    case KvType::bf16:
      return instance_of<KvFormat<KvType::bf16>, kHeadSizes...>(head_size);
    case KvType::f16:
      return instance_of<KvFormat<KvType::f16>, kHeadSizes...>(head_size);
    case KvType::int8:
      return instance_of<KvFormat<KvType::int8>, kHeadSizes...>(head_size);
    case KvType::fp8:
      return instance_of<KvFormat<KvType::fp8>, kHeadSizes...>(head_size);
    default:
      return {};
  }
}

}  // namespace quire::cuda
