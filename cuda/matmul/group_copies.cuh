#pragma once

#include "matmul/weight_rings.cuh"

namespace quire::cuda {

// What one of the kCopyWarps warps copies: the stages of groups copier, copier + kCopyWarps, ...;
// of chunks, which are many small copies, those of warps copier, copier + kCopyWarps, ... of all
// groups.
template <WeightKind kKind>
class GroupCopies {
 public:
  static constexpr int kBlockBytes = panel_block_bytes(kKind);
  static constexpr int kBlocks = few_stage_blocks(kKind);

  // `rings`, `barriers`: of all groups, one after the other.
  __device__ __forceinline__ GroupCopies(const ProductArgs& args, std::uint32_t rings,
                                         std::uint32_t barriers, const BlockDeal& deal, int copier,
                                         int lane)
      : args_(args),
        rings_(rings),
        barriers_(barriers),
        deal_(deal),
        panel_bytes_(deal.group_warps * kBlocks * kBlockBytes),
        chunks_(deal.chunk_blocks > 0),
        first_group_(chunks_ ? 0 : copier),
        group_step_(chunks_ ? 1 : kCopyWarps),
        copier_(copier),
        lane_(lane) {}

  // The first stage of each group (of chunks: none), then the barriers of the others.
  __device__ __forceinline__ void start() {
    aim(0);
    if (chunks_) {
      if (copier_ == 0) init_barriers(0, args_.stages);
      return;
    }
    init_barriers(0, 1);
    for_groups([&](int group, int index) { copy(group, index, 0, 0); });
    init_barriers(1, args_.stages);
  }
  // All others: while there is no input one stage after the other, else that would come behind all
  // these weights.
  __device__ __forceinline__ void run(std::uint32_t input, bool awaits_input) {
    int slot = 0, filled = 1, stage = 0;
    std::uint32_t parity = 1;
    if (chunks_) for_groups([&](int group, int index) { copy(group, index, 0, 0); });
#pragma unroll 1
    for (int round = 0;;) {
      if (++slot == args_.stages) {
        slot = 0;
        parity ^= 1;
      }
      if (++stage == deal_.stages) {
        stage = 0;
        aim(++round);
        if (static_cast<int>(blockIdx.y + round * args_.groups * gridDim.y) >= args_.units) return;
      }
      const bool first = filled < args_.stages;
      for_groups([&](int group, int index) {
        const std::uint32_t full = barrier(group, slot);
        if (!first) {
          wait_barrier(full + 8, parity);
        } else if (awaits_input) {
          while (!test_barrier(input, 0) && !test_barrier(full - 16, 0)) {
          }
        }
        copy(group, index, stage, slot);
      });
      ++filled;
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t barrier(int group, int slot) const {
    return barriers_ + (group * args_.stages + slot) * 16;
  }
  __device__ __forceinline__ void init_barriers(int begin, int end) const {
    if (lane_ == 0) {
#pragma unroll 1
      for (int group = first_group_; group < args_.groups; group += group_step_) {
#pragma unroll 1
        for (int slot = begin; slot < end; ++slot) {
          init_barrier(barrier(group, slot), chunks_ ? kCopyWarps : 1);
          init_barrier(barrier(group, slot) + 8, deal_.group_warps);
        }
      }
      fence_barriers();
    }
    __syncwarp();
  }
  // Lane i holds the panels of its i-th group in this round of units.
  __device__ __forceinline__ void aim(int round) {
    const int group = first_group_ + group_step_ * lane_;
    const int unit = blockIdx.y + (round * args_.groups + group) * gridDim.y;
    const bool any = group < args_.groups && unit < args_.units;
    groups_ = __popc(__ballot_sync(0xffffffff, any));
    if (!any) return;
    const UnitPlace place(args_, unit);
    panels_[0] = place.panel(args_, 0);
    panels_[1] = place.panel(args_, 1);
  }
  template <class Copy>
  __device__ __forceinline__ void for_groups(Copy&& copy) {
#pragma unroll 1
    for (int i = 0; i < groups_; ++i) copy(first_group_ + group_step_ * i, i);
  }
  __device__ __forceinline__ const std::byte* panel(int which, int index) const {
    return reinterpret_cast<const std::byte*>(
        __shfl_sync(0xffffffff, reinterpret_cast<unsigned long long>(panels_[which]), index));
  }
  __device__ __forceinline__ void copy(int group, int index, int stage, int slot) {
    const std::byte* from[2] = {panel(0, index), panel(1, index)};
    const std::uint32_t to = rings_ + (group * args_.stages + slot) * 2 * panel_bytes_;
    const std::uint32_t full = barrier(group, slot);
    if (!chunks_) {
      const int first = deal_.begin + stage * deal_.group_warps * kBlocks;
      const int bytes = max(0, min(deal_.group_warps * kBlocks, deal_.end - first)) * kBlockBytes;
      const std::size_t at = static_cast<std::size_t>(first) * kBlockBytes;
      if (elect_lane()) {
        expect_bytes(full, 2 * bytes);
        if (bytes == 0) return;
        copy_bulk(to, from[0] + at, bytes, full);
        copy_bulk(to + panel_bytes_, from[1] + at, bytes, full);
      }
      return;
    }
    const int warp = min(copier_ + kCopyWarps * lane_, deal_.group_warps);
    const int first = deal_.first(warp) + stage * kBlocks;
    int bytes = max(0, min(kBlocks, deal_.warp_end(warp) - first)) * kBlockBytes;
    if (warp == deal_.group_warps) bytes = 0;
    const int all = __reduce_add_sync(0xffffffff, bytes);
    if (lane_ == 0) expect_bytes(full, 2 * all);
    __syncwarp();
    if (bytes == 0) return;
    const std::size_t at = static_cast<std::size_t>(first) * kBlockBytes;
    copy_bulk(to + warp * kBlocks * kBlockBytes, from[0] + at, bytes, full);
    copy_bulk(to + panel_bytes_ + warp * kBlocks * kBlockBytes, from[1] + at, bytes, full);
  }

  const ProductArgs& args_;
  std::uint32_t rings_, barriers_;
  const BlockDeal& deal_;
  int panel_bytes_;
  bool chunks_;
  int first_group_, group_step_, copier_, lane_;
  int groups_ = 0;  // that have a unit in this round
  const std::byte* panels_[2] = {};
};

}  // namespace quire::cuda
