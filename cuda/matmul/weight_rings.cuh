#pragma once

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"

// The rings in shared memory through which few_tokens streams the weights. A stage holds, of one
// unit, few_stage_blocks blocks of both panels for each warp of a group.
namespace quire::cuda {

// Copies one block of one panel to shared memory; called by a whole warp.
template <WeightKind kKind>
__device__ __forceinline__ void copy_block(std::uint32_t to, const std::byte* panel, int block,
                                           std::size_t row_bytes, int lane) {
  if constexpr (kKind == WeightKind::bfloat) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 8 + 4 * i, piece = lane % 8;
      copy_async(to + row * 128 + ((piece ^ (row % 8)) * 16),
                 panel + row * row_bytes + (block * 128 + piece * 16));
    }
  } else {
    constexpr int kBytes = record_bytes(kKind);
    const std::byte* from = panel + static_cast<std::size_t>(block) * kBytes + lane * 16;
#pragma unroll
    for (int i = 0; i < (kBytes + 511) / 512; ++i) {
      if (kBytes % 512 == 0 || lane * 16 + i * 512 < kBytes) {
        copy_async(to + lane * 16 + i * 512, from + i * 512);
      }
    }
  }
}

// How the blocks of a thread block's slice are dealt out to the warps of a group. Of stage s a warp
// multiplies up to stage_blocks blocks from first + s * step on. A chunk for each, or (where the
// order of sums is not fixed) in turn, so that a stage is one piece of each panel.
struct BlockDeal {
  int begin, end;                         // of the slice
  int chunk_blocks = 0;                   // 0: in turn
  int group_warps, stage_blocks, stages;  // stages: of a unit

  __device__ __forceinline__ BlockDeal(const ProductArgs& args, int slice, int blocks_each,
                                       bool in_turn)
      : group_warps(args.slice_chunks), stage_blocks(blocks_each), stages(args.unit_stages) {
    begin = min(slice * group_warps * args.chunk_blocks, args.blocks);
    end = min(begin + group_warps * args.chunk_blocks, args.blocks);
    if (!in_turn) chunk_blocks = args.chunk_blocks;
  }
  __device__ __forceinline__ int first(int warp) const {
    return chunk_blocks > 0 ? min(begin + warp * chunk_blocks, end) : begin + warp * stage_blocks;
  }
  __device__ __forceinline__ int step() const {
    return chunk_blocks > 0 ? stage_blocks : group_warps * stage_blocks;
  }
  __device__ __forceinline__ int warp_end(int warp) const {
    return chunk_blocks > 0 ? min(begin + (warp + 1) * chunk_blocks, end) : end;
  }
};

// A group's ring as its warps see it where others do the copies.
template <WeightKind kKind>
class GroupRing {
 public:
  static constexpr bool kOwn = false;
  static constexpr int kBlockBytes = panel_block_bytes(kKind);
  static constexpr int kBlocks = few_stage_blocks(kKind);

  __device__ __forceinline__ GroupRing(const ProductArgs& args, std::byte* ring,
                                       std::uint32_t barriers, const BlockDeal& deal, int warp)
      : memory_(ring + warp * kBlocks * kBlockBytes),
        barriers_(barriers),
        panel_bytes_(deal.group_warps * kBlocks * kBlockBytes),
        stages_(args.stages) {}

  // The warp's part of the oldest stage, once it has arrived; valid until next(). Block i of panel
  // p is at p * panel_bytes() + i * kBlockBytes.
  __device__ __forceinline__ const std::byte* wait() const {
    wait_barrier(barriers_ + 16 * slot_, parity_);
    return memory_ + slot_ * 2 * panel_bytes_;
  }
  __device__ __forceinline__ void next() {
    __syncwarp();
    if (elect_lane()) arrive(barriers_ + 16 * slot_ + 8);
    if (++slot_ == stages_) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }
  __device__ __forceinline__ int panel_bytes() const { return panel_bytes_; }

 private:
  std::byte* memory_;
  std::uint32_t barriers_;
  int panel_bytes_, stages_;
  int slot_ = 0;
  std::uint32_t parity_ = 0;
};

// A warp's part of the ring where it copies for itself.
template <WeightKind kKind>
class WarpRing {
 public:
  static constexpr bool kOwn = true;  // has no stages of which the warp has no block
  static constexpr int kBlockBytes = panel_block_bytes(kKind);
  static constexpr int kBlocks = few_stage_blocks(kKind);

  __device__ __forceinline__ WarpRing(const ProductArgs& args, std::byte* memory,
                                      std::uint32_t barriers, const BlockDeal& deal, int warp,
                                      int first_unit, int unit_step, int lane)
      : args_(args),
        deal_(deal),
        memory_(memory),
        stage_(shared_address(memory)),
        barrier_(barriers),
        unit_(deal.first(warp) < deal.warp_end(warp) ? first_unit : args.units),
        unit_step_(unit_step),
        warp_(warp),
        lane_(lane) {
    if (lane < args.stages) init_barrier(barrier_ + 16 * lane, 32);
    __syncwarp();
    aim();
  }

  // Starts the copies of the next blocks into a free stage.
  __device__ __forceinline__ void issue(int slot) {
    if (unit_ >= args_.units) return;
    const std::uint32_t stage = stage_ + slot * 2 * kBlocks * kBlockBytes;
    const std::size_t row_bytes = static_cast<std::size_t>(args_.blocks) * kBlockColumns * 2;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (block_ + i < end_) {
        copy_block<kKind>(stage + i * kBlockBytes, panels_[0], block_ + i, row_bytes, lane_);
        copy_block<kKind>(stage + (kBlocks + i) * kBlockBytes, panels_[1], block_ + i, row_bytes,
                          lane_);
      }
    }
    arrive_after_copies(barrier_ + 16 * slot);
    block_ += deal_.step();
    if (block_ >= end_) {
      unit_ += unit_step_;
      aim();
    }
  }
  // Fills the ring behind the first stage: the next one when the one before has arrived, until
  // `input` has, if that is awaited.
  __device__ __forceinline__ void fill(std::uint32_t input, bool awaits_input) {
#pragma unroll 1
    for (int i = 1; i < args_.stages && unit_ < args_.units; ++i) {
      while (awaits_input && !test_barrier(input, 0) && !test_barrier(barrier_ + 16 * (i - 1), 0)) {
      }
      issue(i);
    }
  }

  __device__ __forceinline__ const std::byte* wait() const {
    wait_barrier(barrier_ + 16 * slot_, parity_);
    return memory_ + slot_ * 2 * kBlocks * kBlockBytes;
  }
  __device__ __forceinline__ void next() {
    __syncwarp();
    issue(slot_);
    if (++slot_ == args_.stages) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }
  __device__ __forceinline__ int panel_bytes() const {
    return kBlocks * kBlockBytes;
  }

 private:
  __device__ __forceinline__ void aim() {
    if (unit_ >= args_.units) return;
    const UnitPlace place(args_, unit_);
    panels_[0] = place.panel(args_, 0);
    panels_[1] = place.panel(args_, 1);
    block_ = deal_.first(warp_);
    end_ = deal_.warp_end(warp_);
  }

  const ProductArgs& args_;
  const BlockDeal& deal_;
  std::byte* memory_;
  std::uint32_t stage_, barrier_;
  int unit_, unit_step_, warp_, lane_;
  int block_ = 0, end_ = 0;
  int slot_ = 0;
  std::uint32_t parity_ = 0;
  const std::byte* panels_[2] = {};
};

}  // namespace quire::cuda
