#pragma once

#include <type_traits>

#include "matmul/epilogue.cuh"
#include "matmul/few_input.cuh"
#include "matmul/group_copies.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"
#include "matmul/weight_format.cuh"
#include "matmul/weight_rings.cuh"

// Products with up to 8 tokens: bound by reading the weights. A thread block keeps its slice of
// the input in shared memory. The warps of a group multiply one unit of 32 rows after the other,
// each its share of the columns, as the weights come through a ring in shared memory, and add up
// their sums there. Other warps start the copies of records and of the input, so that the first
// weights are under way before the kernel before has ended, and the input does not wait behind
// more than those.
namespace quire::cuda {

// Adds one tile of 16 columns of both panels.
template <WeightKind kKind, int tile>
__device__ __forceinline__ void add_tile(float (&sums)[2][1][4],
                                         const LaneWeights<kKind> (&weights)[2], std::uint32_t b0,
                                         std::uint32_t b1) {
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    std::uint32_t a[LaneWeights<kKind>::kParts][4];
    weights[p].template fragment<tile>(a);
#pragma unroll
    for (int part = 0; part < LaneWeights<kKind>::kParts; ++part) {
      multiply_add(sums[p][0], a[part], b0, b1);
    }
  }
}

// Adds one block of 64 columns; `input` is the lane's address of the block's first column. A load
// is 8 tokens x 32 columns.
template <WeightKind kKind>
__device__ __forceinline__ void add_block(float (&sums)[2][1][4],
                                          const LaneWeights<kKind> (&weights)[2],
                                          std::uint32_t input) {
  std::uint32_t b[2][4];
  load_matrices(b[0], input);
  load_matrices(b[1], input + 64);
  add_tile<kKind, 0>(sums, weights, b[0][0], b[0][1]);
  add_tile<kKind, 1>(sums, weights, b[0][2], b[0][3]);
  add_tile<kKind, 2>(sums, weights, b[1][0], b[1][1]);
  add_tile<kKind, 3>(sums, weights, b[1][2], b[1][3]);
}

// Writes a warp's sums as [token][stride] floats, 16 rows a panel.
template <int kPanels, int kTokenTiles>
__device__ __forceinline__ void spread_sums(const float (&sums)[kPanels][kTokenTiles][4],
                                            int tokens, int stride, int lane, float* to) {
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int token = n * 8 + lane % 4 * 2 + c % 2;
        if (token < tokens) to[token * stride + p * 16 + lane / 4 + c / 2 * 8] = sums[p][n][c];
      }
    }
  }
}

// The warps that hold the chunks of one unit.
struct UnitGroup {
  int thread, threads, barrier;
  __device__ __forceinline__ void sync() const { group_barrier(barrier, threads); }
};

// Stores the sums of a unit. What it takes beside them is read when it is made, while other warps
// still multiply.
class UnitStore {
 public:
  __device__ __forceinline__ UnitStore(const ProductArgs& args, int unit, const UnitGroup& group)
      : args_(args),
        group_(group),
        place_(args, unit),
        outputs_(args, place_),
        adds_(!args.gated && args.epilogue == Epilogue::add_residual),
        old_(read(group.thread)) {}

  // Adds `count` addends of [token][stride] floats each, in order.
  template <bool kShared>
  __device__ __forceinline__ void add(const float* addends, int count, int addend_floats,
                                      int stride) const {
    const auto total = [&](int token, int row) {
      const float* from = addends + token * stride + row;
      float sum = 0;
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        sum += kShared ? from[i * addend_floats] : __ldcg(from + i * addend_floats);
      }
      return sum;
    };
    if (args_.gated) {
      for (int i = group_.thread; i < args_.tokens * kPanelRows; i += group_.threads) {
        const int token = i / kPanelRows, r = i % kPanelRows;
        store_gated(args_, place_, r, token, total(token, r), total(token, r + kPanelRows));
      }
      return;
    }
    for (int i = group_.thread; i < args_.tokens * kUnitRows; i += group_.threads) {
      const int token = i / kUnitRows, r = i % kUnitRows;
      const float sum = total(token, r);
      if (adds_) {
        outputs_.write_sum(r, token, i == group_.thread ? old_ : read(i), sum);
      } else {
        outputs_.write(r, token, sum);
      }
    }
  }

 private:
  __device__ __forceinline__ float read(int i) const {
    return adds_ && i < args_.tokens * kUnitRows ? outputs_.read(i % kUnitRows, i / kUnitRows)
                                                 : 0.0f;
  }
  const ProductArgs& args_;
  const UnitGroup& group_;
  const UnitPlace place_;
  const Outputs outputs_;
  const bool adds_;
  const float old_;
};

// Whether this group is the last of `groups` to have come here, after writing partial sums.
__device__ __forceinline__ bool last_to_come(const ProductArgs& args, int counter, int groups,
                                             const UnitGroup& group, std::uint32_t* shared) {
  __threadfence();
  group.sync();
  if (group.thread == 0) *shared = atomicAdd(args.counters + counter, 1u);
  group.sync();
  const bool last = *shared + 1 == static_cast<std::uint32_t>(groups);
  if (last) {
    __threadfence();
    if (group.thread == 0) args.counters[counter] = 0;
  }
  return last;
}

// The blocks of a warp in one unit, stage by stage, into its sums.
template <WeightKind kKind, class Ring>
__device__ __forceinline__ void add_unit(float (&sums)[2][1][4], Ring& ring, const BlockDeal& deal,
                                         int first, int end, InputPieces& pieces,
                                         std::uint32_t input, int lane, const CodeTable& table) {
  constexpr int kBlocks = Ring::kBlocks;
  const auto add = [&](const std::byte* stage, int i) {
    LaneWeights<kKind> weights[2];
    weights[0].load(stage + i * Ring::kBlockBytes, lane, table);
    weights[1].load(stage + ring.panel_bytes() + i * Ring::kBlockBytes, lane, table);
    add_block<kKind>(sums, weights, input + i * 128);
  };
  const int step = deal.step();
  input += first * 128;
#pragma unroll 1
  for (int stage = 0; stage < deal.stages; ++stage, first += step, input += step * 128) {
    if (Ring::kOwn && first >= end) break;
    const std::byte* weights = ring.wait();
    pieces.wait(min(first + kBlocks, end) - deal.begin);
    if (first + kBlocks <= end) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) add(weights, i);
    } else {
#pragma unroll 1
      for (int i = 0; first + i < end; ++i) add(weights, i);
    }
    ring.next();
  }
}

template <WeightKind kKind>
__global__ void __launch_bounds__(kFewThreads, 1)
    few_tokens(const __grid_constant__ ProductArgs args) {
  extern __shared__ __align__(1024) std::byte memory[];
  constexpr bool kBulk = kBulkCopies && kKind != WeightKind::bfloat;
  constexpr int kStageBytes = few_stage_bytes(kKind);  // of a warp
  using Ring = std::conditional_t<kBulk, GroupRing<kKind>, WarpRing<kKind>>;
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // uniform to the compiler too
  const int lane = threadIdx.x % 32, group_warps = args.slice_chunks;
  const int warps = args.groups * group_warps;  // that multiply; then the input's, then copiers
  const int slice = blockIdx.x, peer = blockIdx.y, peers = gridDim.y;
  const int group = warp * args.group_share >> 16, group_warp = warp - group * group_warps;
  const BlockDeal deal(args, slice, few_stage_blocks(kKind), kBulk && args.in_turn);
  const int slice_blocks = group_warps * args.chunk_blocks;
  const std::size_t input_stride = few_input_stride(slice_blocks);
  const int sum_floats = args.tokens * kSumStride;

  // Shared memory: rings, input, sums, barriers of the rings and of the input, a word for each
  // group.
  const int ring_bytes = group_warps * args.stages * kStageBytes;  // of a group
  std::byte* input = memory + warps * args.stages * kStageBytes;
  float* sums_memory = reinterpret_cast<float*>(input + args.tokens * input_stride);
  float* group_sums = sums_memory + group * group_warps * sum_floats;
  std::byte* barrier_memory = reinterpret_cast<std::byte*>(sums_memory + warps * sum_floats);
  const std::uint32_t input_ready = shared_address(barrier_memory);
  const std::uint32_t barriers = input_ready + 8 * kInputPieces;
  auto* word = reinterpret_cast<std::uint32_t*>(barrier_memory + 8 * kInputPieces +
                                                warps * args.stages * 16) +
               group;
  const int first_unit = peer + group * peers, unit_step = peers * args.groups;

  // Weights before anything else; then the input, which may only be read when the kernel before
  // has ended.
  const bool whole = whole_input(args);
  const auto start = [&] {  // after it all barriers are there, and what is not a whole input
    if (!whole) {
      wait_for_previous_kernel();
      stage_input(args, deal.begin * kBlockColumns, slice_blocks * kBlockColumns, input,
                  input_stride);
      commit_copies();
      wait_for_copies<0>();
    }
    group_barrier(0, blockDim.x);
  };
  if (warp == warps) {
    if (lane == 0) {
      for (int i = 0; i < kInputPieces; ++i) init_barrier(input_ready + 8 * i, 1);
      fence_barriers();
    }
    __syncwarp();
    allow_next_kernel();
    if (!whole) return start();
    group_arrive(0, blockDim.x);
    wait_for_previous_kernel();
    copy_input_pieces(args, deal.begin * kBlockColumns, slice_blocks, shared_address(input),
                      input_stride, input_ready, lane);
    return;
  }
  if (warp > warps) {
    if constexpr (kBulk) {
      GroupCopies<kKind> copies(args, shared_address(memory), barriers, deal, warp - warps - 1,
                                lane);
      copies.start();
      start();
      copies.run(input_ready, whole);
    } else {
      start();
    }
    return;
  }
  const auto make_ring = [&] {
    std::byte* group_ring = memory + group * ring_bytes;
    if constexpr (kBulk) {
      return Ring(args, group_ring, barriers + group * args.stages * 16, deal, group_warp);
    } else {
      return Ring(args, group_ring + group_warp * args.stages * kStageBytes,
                  barriers + warp * args.stages * 16, deal, group_warp, first_unit, unit_step,
                  lane);
    }
  };
  Ring ring = make_ring();
  if constexpr (!kBulk) ring.issue(0);
  start();
  if constexpr (!kBulk) ring.fill(input_ready, whole);
  InputPieces pieces{input_ready, input_piece_blocks(slice_blocks), whole ? 0 : slice_blocks};
  pieces.wait(1);
  wait_for_previous_kernel();

  const int token = min(lane % 8, args.tokens - 1);
  const std::uint32_t lane_input =
      shared_address(input) + token * input_stride + lane / 8 * 16 - deal.begin * 128;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  const UnitGroup unit_group{static_cast<int>(threadIdx.x) - group * group_warps * 32,
                             group_warps * 32, group + 1};
  const int chunk = slice * group_warps + group_warp;
  const int first = deal.first(group_warp), end = deal.warp_end(group_warp);

  for (int unit = first_unit; unit < args.units; unit += unit_step) {
    float sums[2][1][4] = {};
    add_unit<kKind>(sums, ring, deal, first, end, pieces, lane_input, lane, table);
    const UnitStore store(args, unit, unit_group);
    float* partials = args.partials;
    const int count = args.partial_chunks ? args.chunks : args.slices;
    const int partial_floats = args.tokens * kUnitRows;
    partials += static_cast<std::size_t>(unit) * count * partial_floats;
    if (args.slices > 1 && args.partial_chunks) {
      if (chunk < args.chunks) {
        spread_sums(sums, args.tokens, kUnitRows, lane, partials + chunk * partial_floats);
      }
    } else {
      spread_sums(sums, args.tokens, kSumStride, lane, group_sums + group_warp * sum_floats);
      unit_group.sync();
      const int addends =
          deal.chunk_blocks > 0 ? min(group_warps, args.chunks - slice * group_warps) : group_warps;
      if (args.slices == 1) {
        store.add<true>(group_sums, addends, sum_floats, kSumStride);
        unit_group.sync();
        continue;
      }
      for (int i = unit_group.thread; i < partial_floats; i += unit_group.threads) {
        float sum = 0;
#pragma unroll 4
        for (int a = 0; a < addends; ++a) {
          sum += group_sums[a * sum_floats + i / kUnitRows * kSumStride + i % kUnitRows];
        }
        partials[slice * partial_floats + i] = sum;
      }
    }
    if (last_to_come(args, unit, args.slices, unit_group, word)) {
      store.add<false>(partials, count, partial_floats, kUnitRows);
    }
    unit_group.sync();
  }
}

}  // namespace quire::cuda
