#pragma once

#include "matmul/expand.h"
#include "matmul/weight_format.cuh"

namespace quire::cuda {

// One warp writes one record as 16 rows of 64 bfloat16, through shared memory.
template <WeightKind kKind>
__global__ void __launch_bounds__(kExpandThreads)
    expand_records(const __grid_constant__ ExpandArgs args) {
  __shared__ __align__(16) std::byte memory[kExpandThreads / 32 * 2048];
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32;
  const std::int64_t index = std::int64_t{blockIdx.x} * (kExpandThreads / 32) + threadIdx.x / 32;
  if (index >= args.records) return;
  std::byte* tile = memory + threadIdx.x / 32 * 2048;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  LaneWeights<kKind> weights;
  weights.load(args.from + index * record_bytes(kKind), lane, table);
  const auto write = [&](int t, const std::uint32_t(&values)[LaneWeights<kKind>::kParts][4]) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const int row = lane / 4 + pair % 2 * 8, piece = 2 * t + pair / 2;
      *reinterpret_cast<std::uint32_t*>(tile + row * 128 + ((piece ^ (row % 8)) * 16) +
                                        lane % 4 * 4) = values[0][pair];
    }
  };
  std::uint32_t values[LaneWeights<kKind>::kParts][4];
  weights.template fragment<0>(values);
  write(0, values);
  weights.template fragment<1>(values);
  write(1, values);
  weights.template fragment<2>(values);
  write(2, values);
  weights.template fragment<3>(values);
  write(3, values);
  __syncwarp();
  const std::int64_t panel = index / args.blocks, block = index % args.blocks;
  const std::int64_t row_bytes = std::int64_t{args.blocks} * kBlockColumns * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 8 + 4 * i, piece = lane % 8;
    *reinterpret_cast<uint4*>(args.to + (panel * kPanelRows + row) * row_bytes + block * 128 +
                              piece * 16) = load16(tile + row * 128 + ((piece ^ (row % 8)) * 16));
  }
}

}  // namespace quire::cuda
