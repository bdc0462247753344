#pragma once

#include <cuda.h>

#include "matmul/many_tokens.cuh"
#include "matmul/warpgroup_shared.cuh"

// Products of bfloat16 weights with more tokens on compute capability 9.0a: as many_tokens, but
// both operands go by tensor copies to a ring in shared memory and two warpgroups multiply from
// there. Not in the order of sums of the other kernels.
namespace quire::cuda {

// The weights of each part, in boxes of a panel: 16 rows x 64 columns.
struct WeightMaps {
  CUtensorMap parts[3];
};

template <int kTokenTiles>
struct BfloatLayout {
  static constexpr int kPanelBytes = panel_block_bytes(WeightKind::bfloat);
  static constexpr int kInputBytes = kTokenTiles * 8 * 128;
  static constexpr int kWeightBytes = kTileWarps * 2 * kPanelBytes;
  static constexpr int kStages = wide_stages(WeightKind::bfloat, kTokenTiles);
  // Shared memory: inputs, weights, then barriers "full", barriers "empty".
  static constexpr int kWeights = kStages * kInputBytes;
  static constexpr int kFull = kWeights + kStages * kWeightBytes;
  static constexpr int kEmpty = kFull + kStages * 8;

  // Of a panel in its stage: a warpgroup's operand is the same panel of its four units.
  __device__ static constexpr int panel(int unit, int which) {
    return ((unit / 4 * 2 + which) * 4 + unit % 4) * kPanelBytes;
  }
};

#if __CUDA_ARCH__ >= 900
// The one warp that copies: a panel for each of its first lanes.
template <int kTokenTiles>
__device__ __forceinline__ void copy_bfloat_stages(const ProductArgs& args, const CUtensorMap& map,
                                                   const WeightMaps& weights, const TilePlace& tile,
                                                   std::uint32_t shared) {
  using Layout = BfloatLayout<kTokenTiles>;
  const int lane = threadIdx.x % 32, which = lane % 2;
  const int first_unit = tile.row_tile * kTileWarps, unit = first_unit + lane / 2;
  const bool copies = lane < kTileWarps * 2 && unit < args.units;
  const UnitPlace place(args, copies ? unit : first_unit);
  const CUtensorMap* from = &weights.parts[args.gated ? which : place.part];
  const int row = place.row + (args.gated ? 0 : which * kPanelRows);
  const std::uint32_t to = shared + Layout::kWeights + Layout::panel(lane / 2 % kTileWarps, which);
  const int units = min(kTileWarps, args.units - first_unit);
  const std::uint32_t bytes = Layout::kInputBytes + units * 2 * Layout::kPanelBytes;
  const auto copy_weights = [&](int block, int slot) {
    const std::uint32_t full = shared + Layout::kFull + 8 * slot;
    if (lane == 0) expect_bytes(full, bytes);
    __syncwarp();
    if (copies) copy_box(to + slot * Layout::kWeightBytes, from, block * kBlockColumns, row, full);
  };
  const auto copy_tokens = [&](int block, int slot) {
    if (lane == 0) {
      copy_box(shared + slot * Layout::kInputBytes, &map, block * kBlockColumns, tile.first_token,
               shared + Layout::kFull + 8 * slot);
    }
  };
  const int filled = min(Layout::kStages, tile.end - tile.begin);
  for (int i = 0; i < filled; ++i) copy_weights(tile.begin + i, i);
  let_next_start();
  wait_for_inputs();
  for (int i = 0; i < filled; ++i) copy_tokens(tile.begin + i, i);
  int slot = 0;
  std::uint32_t parity = 0;
  for (int block = tile.begin + Layout::kStages; block < tile.end; ++block) {
    wait_barrier(shared + Layout::kEmpty + 8 * slot, parity);
    copy_weights(block, slot);
    copy_tokens(block, slot);
    if (++slot == Layout::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// One of the eight warps that multiply.
template <int kTokenTiles>
__device__ __forceinline__ void multiply_bfloat_stages(const TilePlace& tile, std::uint32_t shared,
                                                       TileSums<kTokenTiles>& sums) {
  using Layout = BfloatLayout<kTokenTiles>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint32_t weights = shared + Layout::kWeights + Layout::panel(warp / 4 * 4, 0);
  constexpr int kOperand = 4 * Layout::kPanelBytes;
  int slot = 0, last_slot = -1;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int block = tile.begin; block < tile.end; ++block) {
    wait_barrier(shared + Layout::kFull + 8 * slot, parity);
    const std::uint32_t a = weights + slot * Layout::kWeightBytes;
    const std::uint32_t b = shared + slot * Layout::kInputBytes;
    fence_products();
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      multiply_add_async(sums.values[0], swizzled_operand(a + t * 32),
                         swizzled_operand(b + t * 32));
      multiply_add_async(sums.values[1], swizzled_operand(a + kOperand + t * 32),
                         swizzled_operand(b + t * 32));
    }
    commit_products();
    wait_for_products<1>();
    if (last_slot >= 0 && lane == 0) arrive(shared + Layout::kEmpty + 8 * last_slot);
    last_slot = slot;
    if (++slot == Layout::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
  wait_for_products<0>();
}
#endif

template <int kTokenTiles>
__global__ void __launch_bounds__(kWideThreads, 1)
    wide_bfloat(const __grid_constant__ ProductArgs args, const __grid_constant__ CUtensorMap map,
                const __grid_constant__ WeightMaps weights) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) std::byte memory[];
  using Layout = BfloatLayout<kTokenTiles>;
  const TilePlace tile(args, kTokenTiles * 8);
  const std::uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Layout::kStages; ++i) {
      init_barrier(shared + Layout::kFull + 8 * i, 1);
      init_barrier(shared + Layout::kEmpty + 8 * i, kTileWarps);
    }
    fence_barriers();
  }
  __syncthreads();
  if (threadIdx.x / 32 >= kTileWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x / 32 == kTileWarps) {
      copy_bfloat_stages<kTokenTiles>(args, map, weights, tile, shared);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    TileSums<kTokenTiles> sums;
    multiply_bfloat_stages<kTokenTiles>(tile, shared, sums);
    wait_for_inputs();
    store_tile(args, tile, sums, memory);
  }
#endif
}

}  // namespace quire::cuda
