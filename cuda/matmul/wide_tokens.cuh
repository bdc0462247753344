#pragma once

#include <cuda.h>

#include "matmul/many_tokens.cuh"
#include "matmul/warpgroup.cuh"

// Products of records with more tokens on compute capability 9.0a: as many_tokens, but a
// warpgroup's four units are two 64-row operands, expanded in registers, and one more warp does all
// copies. Not in the order of sums of the other kernels.
namespace quire::cuda {

template <WeightKind kKind, int kTokenTiles>
struct WideLayout {
  static constexpr int kInputBytes = kTokenTiles * 8 * 128;
  static constexpr int kWeightBytes = kTileWarps * 2 * panel_block_bytes(kKind);
  static constexpr int kStages = wide_stages(kKind, kTokenTiles);
  // Shared memory: inputs, weights, then barriers "full", barriers "empty".
  static constexpr int kWeights = kStages * kInputBytes;
  static constexpr int kFull = kWeights + kStages * kWeightBytes;
  static constexpr int kEmpty = kFull + kStages * 8;
};

#if __CUDA_ARCH__ >= 900
// The one warp that copies.
template <WeightKind kKind, int kTokenTiles>
__device__ __forceinline__ void copy_stages(const ProductArgs& args, const CUtensorMap& map,
                                            const TilePlace& tile, std::uint32_t shared) {
  const int first_unit = tile.row_tile * kTileWarps, begin = tile.begin, end = tile.end;
  using Layout = WideLayout<kKind, kTokenTiles>;
  const int lane = threadIdx.x % 32;
  const int unit = first_unit + lane / 2;
  const bool copies = lane < kTileWarps * 2 && unit < args.units;
  const std::byte* panel = nullptr;
  if (copies) panel = UnitPlace(args, unit).panel(args, lane % 2);
  const int units = min(kTileWarps, args.units - first_unit);
  const std::uint32_t bytes = Layout::kInputBytes + units * 2 * panel_block_bytes(kKind);
  const auto copy_weights = [&](int block, int slot) {
    if (lane == 0) expect_bytes(shared + Layout::kFull + 8 * slot, bytes);
    __syncwarp();
    if (copies) {
      copy_bulk(
          shared + Layout::kWeights + slot * Layout::kWeightBytes + lane * panel_block_bytes(kKind),
          panel + static_cast<std::size_t>(block) * panel_block_bytes(kKind),
          panel_block_bytes(kKind), shared + Layout::kFull + 8 * slot);
    }
  };
  const auto copy_tokens = [&](int block, int slot) {
    if (lane == 0) {
      copy_box(shared + slot * Layout::kInputBytes, &map, block * kBlockColumns, tile.first_token,
               shared + Layout::kFull + 8 * slot);
    }
  };
  const int filled = min(Layout::kStages, end - begin);
  for (int i = 0; i < filled; ++i) copy_weights(begin + i, i);
  let_next_start();
  wait_for_inputs();
  for (int i = 0; i < filled; ++i) copy_tokens(begin + i, i);
  int slot = 0;
  std::uint32_t parity = 0;
  for (int block = begin + Layout::kStages; block < end; ++block) {
    wait_barrier(shared + Layout::kEmpty + 8 * slot, parity);
    copy_weights(block, slot);
    copy_tokens(block, slot);
    if (++slot == Layout::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// Half a block: 32 columns, tiles `first` and first + 1.
template <WeightKind kKind, int kTokenTiles, int first>
__device__ __forceinline__ void add_half(float (&sums)[2][kTokenTiles][4],
                                         const LaneWeights<kKind> (&weights)[2],
                                         std::uint32_t (&a)[2][2][1][4], std::uint32_t input) {
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    weights[p].template fragment<first>(a[0][p]);
    weights[p].template fragment<first + 1>(a[1][p]);
  }
  fence_products();
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const std::uint64_t b = swizzled_operand(input + (first + t) * 32);
    multiply_add_async(sums[0], a[t][0][0], b);
    multiply_add_async(sums[1], a[t][1][0], b);
  }
  commit_products();
}

// One of the eight warps that multiply.
template <WeightKind kKind, int kTokenTiles>
__device__ __forceinline__ void multiply_stages(const ProductArgs& args, const TilePlace& tile,
                                                std::byte* memory, TileSums<kTokenTiles>& sums) {
  using Layout = WideLayout<kKind, kTokenTiles>;
  const std::uint32_t shared = shared_address(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  std::uint32_t a[2][2][2][1][4];
  int slot = 0, last_slot = -1;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int block = tile.begin; block < tile.end; ++block) {
    wait_barrier(shared + Layout::kFull + 8 * slot, parity);
    const std::byte* from = memory + Layout::kWeights + slot * Layout::kWeightBytes +
                            warp * 2 * panel_block_bytes(kKind);
    LaneWeights<kKind> weights[2];
    weights[0].load(from, lane, table);
    weights[1].load(from + panel_block_bytes(kKind), lane, table);
    const std::uint32_t input = shared + slot * Layout::kInputBytes;
    wait_for_products<1>();
    add_half<kKind, kTokenTiles, 0>(sums.values, weights, a[0], input);
    wait_for_products<1>();
    if (last_slot >= 0 && lane == 0) arrive(shared + Layout::kEmpty + 8 * last_slot);
    add_half<kKind, kTokenTiles, 2>(sums.values, weights, a[1], input);
    last_slot = slot;
    if (++slot == Layout::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
  wait_for_products<0>();
}
#endif

template <WeightKind kKind, int kTokenTiles>
__global__ void __launch_bounds__(kWideThreads, 1)
    wide_tokens(const __grid_constant__ ProductArgs args, const __grid_constant__ CUtensorMap map) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) std::byte memory[];
  using Layout = WideLayout<kKind, kTokenTiles>;
  const TilePlace tile(args, kTokenTiles * 8);
  const std::uint32_t shared = shared_address(memory);
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Layout::kStages; ++i) {
      init_barrier(shared + Layout::kFull + 8 * i, 1);
      init_barrier(shared + Layout::kEmpty + 8 * i, kTileWarps);
    }
    fence_barriers();
  }
  __syncthreads();
  if (warp >= kTileWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == kTileWarps) {
      copy_stages<kKind, kTokenTiles>(args, map, tile, shared);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    TileSums<kTokenTiles> sums;
    multiply_stages<kKind, kTokenTiles>(args, tile, memory, sums);
    wait_for_inputs();
    store_tile(args, tile, sums, memory);
  }
#endif
}

}  // namespace quire::cuda
