#pragma once

#include "matmul/many_tokens.cuh"
#include "matmul/tensor_map.h"
#include "matmul/warpgroup.cuh"

// Products with more tokens on compute capability 9.0a: as many_tokens, but the panels of four
// warps are a 64-row operand, expanded in registers, and four more warps do all copies. Not in the
// order of sums of the other kernels.
namespace quire::cuda {

template <WeightKind kKind, int kTokenTiles>
struct WideLayout {
  static constexpr int kPanels = wide_panels(kTokenTiles);  // of a warp
  static constexpr int kWarps = wide_warps(kTokenTiles);    // that multiply
  static constexpr int kBlocks = kWideBlocks;               // of a stage
  static constexpr int kInputBlockBytes = kTokenTiles * 8 * 128;
  static constexpr int kInputBytes = kBlocks * kInputBlockBytes;
  static constexpr int kPanelBytes = kBlocks * panel_block_bytes(kKind);
  static constexpr int kWeightBytes = kTilePanels * kPanelBytes;
  static constexpr int kStages = wide_stages(kKind, kTokenTiles);
  // Shared memory: inputs, weights, then barriers "full", barriers "empty".
  static constexpr int kWeights = kStages * kInputBytes;
  static constexpr int kFull = kWeights + kStages * kWeightBytes;
  static constexpr int kEmpty = kFull + kStages * 8;
};

#if __CUDA_ARCH__ >= 900
// The warps that copy give registers to those that multiply.
template <int kTokenTiles>
__device__ __forceinline__ void keep_registers() {
  if constexpr (wide_panels(kTokenTiles) == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 64;");
  }
}
template <int kTokenTiles>
__device__ __forceinline__ void take_registers() {
  if constexpr (wide_panels(kTokenTiles) == 2) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 104;");
  }
}

// One of the warps that copy: its first lane copies its share of the panels, and the first warp's
// the input.
template <WeightKind kKind, int kTokenTiles>
class StageCopies {
 public:
  using Layout = WideLayout<kKind, kTokenTiles>;
  static constexpr int kPanels = kTilePanels / kTileCopyWarps;

  __device__ __forceinline__ StageCopies(const ProductArgs& args, const WideMaps& maps,
                                         const TilePlace& tile, std::uint32_t shared, int warp)
      : maps_(maps), tile_(tile), shared_(shared), warp_(warp) {
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      const int panel = warp * kPanels + i, unit = tile.row_tile * kTileWarps + panel / 2;
      from_[i] = nullptr;
      if (unit >= args.units) continue;
      ++count_;
      const UnitPlace place(args, unit);
      from_[i] = place.panel(args, panel % 2) +
                 static_cast<std::size_t>(tile.begin) * panel_block_bytes(kKind);
    }
  }
  // Weights of the next stage, from `block` on; also announces the bytes of the input.
  __device__ __forceinline__ void weights(int block, int slot) {
    const std::uint32_t full = shared_ + Layout::kFull + 8 * slot;
    const int blocks = min(Layout::kBlocks, tile_.end - block);
    const int bytes = blocks * panel_block_bytes(kKind);
    expect_bytes(full, count_ * bytes + (warp_ == 0 ? blocks * Layout::kInputBlockBytes : 0));
    const std::uint32_t to = shared_ + Layout::kWeights + slot * Layout::kWeightBytes +
                             warp_ * kPanels * Layout::kPanelBytes;
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      if (i >= count_) break;
      copy_bulk(to + i * Layout::kPanelBytes, from_[i], bytes, full);
      from_[i] += Layout::kPanelBytes;
    }
  }
  __device__ __forceinline__ void input(int block, int slot) const {
    if (warp_ != 0) return;
#pragma unroll
    for (int i = 0; i < Layout::kBlocks; ++i) {
      if (block + i >= tile_.end) break;
      copy_box(shared_ + slot * Layout::kInputBytes + i * Layout::kInputBlockBytes, &maps_.input,
               (block + i) * kBlockColumns, tile_.first_token, shared_ + Layout::kFull + 8 * slot);
    }
  }

 private:
  const WideMaps& maps_;
  const TilePlace& tile_;
  std::uint32_t shared_;
  int warp_, count_ = 0;  // count_: panels inside the matrix
  const std::byte* from_[kPanels];
};

template <WeightKind kKind, int kTokenTiles>
__device__ __forceinline__ void copy_stages(const ProductArgs& args, const WideMaps& maps,
                                            const TilePlace& tile, std::uint32_t shared, int warp) {
  using Layout = WideLayout<kKind, kTokenTiles>;
  const bool copies = threadIdx.x % 32 == 0;
  StageCopies<kKind, kTokenTiles> stage(args, maps, tile, shared, warp);
  const int stages = (tile.end - tile.begin + Layout::kBlocks - 1) / Layout::kBlocks;
  const int filled = min(Layout::kStages, stages);
  if (copies) {
#pragma unroll 1
    for (int i = 0; i < filled; ++i) stage.weights(tile.begin + i * Layout::kBlocks, i);
  }
  allow_next_kernel();
  wait_for_previous_kernel();
  if (!copies) return;
#pragma unroll 1
  for (int i = 0; i < filled; ++i) stage.input(tile.begin + i * Layout::kBlocks, i);
  int slot = 0;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int i = filled; i < stages; ++i) {
    wait_barrier(shared + Layout::kEmpty + 8 * slot, parity);
    stage.weights(tile.begin + i * Layout::kBlocks, slot);
    stage.input(tile.begin + i * Layout::kBlocks, slot);
    if (++slot == Layout::kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// The part of one of the warps that multiply: its panels times the tokens, block by block.
template <WeightKind kKind, int kTokenTiles>
class WideProducts {
 public:
  using Layout = WideLayout<kKind, kTokenTiles>;
  static constexpr int kPanels = Layout::kPanels;

  __device__ __forceinline__ WideProducts(const ProductArgs& args, std::byte* memory, int warp)
      : table_{{args.table[0], args.table[1], args.table[2], args.table[3]}},
        lane_(threadIdx.x % 32),
        shared_(shared_address(memory)),
        input_(swizzled_operand(shared_)),
        panels_(memory + Layout::kWeights + warp * kPanels * Layout::kPanelBytes) {}

  // Blocks [begin, end).
  __device__ __forceinline__ void run(int begin, int end) {
    const int stages = (end - begin) / Layout::kBlocks;
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      wait_barrier(shared_ + Layout::kFull + 8 * slot_, parity_);
      add_block(0, i > 0);
#pragma unroll
      for (int within = 1; within < Layout::kBlocks; ++within) add_block(within, false);
      last_slot_ = slot_;
      slot_ = slot_ + 1 == Layout::kStages ? 0 : slot_ + 1;
      parity_ ^= slot_ == 0 ? 1 : 0;
    }
    const int left = end - begin - stages * Layout::kBlocks;
    if (left > 0) wait_barrier(shared_ + Layout::kFull + 8 * slot_, parity_);
#pragma unroll 1
    for (int within = 0; within < left; ++within) add_block(within, false);
    wait_for_products<0>();
  }

  float sums[kPanels][kTokenTiles][4] = {};

 private:
  // Block `within` of the stage; `frees`: the stage before this one is then free. At most half a
  // block is under way at the start and end.
  __device__ __forceinline__ void add_block(int within, bool frees) {
    const std::uint64_t input =
        input_ + static_cast<std::uint32_t>(
                     (slot_ * Layout::kInputBytes + within * Layout::kInputBlockBytes) / 16);
    const std::byte* from =
        panels_ + slot_ * Layout::kWeightBytes + within * panel_block_bytes(kKind);
    LaneWeights<kKind> weights[kPanels];
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      weights[p].load(from + p * Layout::kPanelBytes, lane_, table_);
    }
    wait_for_products<1>();
    add_half<0>(weights, a_[0], input);
    wait_for_products<1>();
    if (frees && lane_ == 0) arrive(shared_ + Layout::kEmpty + 8 * last_slot_);
    add_half<2>(weights, a_[1], input);
  }
  // 32 columns: tiles `first` and first + 1.
  template <int first>
  __device__ __forceinline__ void add_half(const LaneWeights<kKind> (&weights)[kPanels],
                                           std::uint32_t (&a)[2][kPanels][1][4],
                                           std::uint64_t input) {
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      weights[p].template fragment<first>(a[0][p]);
      weights[p].template fragment<first + 1>(a[1][p]);
    }
    fence_products();
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        multiply_add_async(sums[p], a[t][p][0], input + (first + t) * 2);
      }
    }
    commit_products();
  }

  const CodeTable table_;
  const int lane_;
  const std::uint32_t shared_;
  const std::uint64_t input_;  // the operand at the start of the inputs
  const std::byte* panels_;
  std::uint32_t a_[2][2][kPanels][1][4];
  int slot_ = 0, last_slot_ = 0;
  std::uint32_t parity_ = 0;
};
#endif

template <WeightKind kKind, int kTokenTiles>
__global__ void __launch_bounds__(wide_threads(kTokenTiles), 1)
    wide_tokens(const __grid_constant__ ProductArgs args, const __grid_constant__ WideMaps maps) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) std::byte memory[];
  using Layout = WideLayout<kKind, kTokenTiles>;
  const TilePlace tile(args, kTokenTiles * 8);
  const std::uint32_t shared = shared_address(memory);
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // uniform to the compiler too
  if (threadIdx.x == 0) {
    for (int i = 0; i < Layout::kStages; ++i) {
      init_barrier(shared + Layout::kFull + 8 * i, kTileCopyWarps);
      init_barrier(shared + Layout::kEmpty + 8 * i, Layout::kWarps);
    }
    fence_barriers();
  }
  __syncthreads();
  if (warp >= Layout::kWarps) {
    keep_registers<kTokenTiles>();
    copy_stages<kKind, kTokenTiles>(args, maps, tile, shared, warp - Layout::kWarps);
  } else {
    take_registers<kTokenTiles>();
    WideProducts<kKind, kTokenTiles> products(args, memory, warp);
    products.run(tile.begin, tile.end);
    wait_for_previous_kernel();
    store_tile(args, tile, products.sums, memory);
  }
#endif
}

}  // namespace quire::cuda
