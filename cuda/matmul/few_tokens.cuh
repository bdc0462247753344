#pragma once

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"
#include "matmul/weight_format.cuh"

// Products with up to 16 tokens: bound by reading the weights. A thread block keeps its slice of
// the input in shared memory; each warp streams one chunk of the columns of one unit of 32 rows
// after the other through a ring of its own; the warps of a group hold the chunks of one unit and
// add them up in shared memory.
namespace quire::cuda {

// Copies the blocks of one stage (n of them, of both panels of a unit) to shared memory; called by
// a whole warp.
template <WeightKind kKind>
__device__ __forceinline__ void copy_blocks(std::uint32_t stage, const std::byte* panel, int block,
                                            int n, std::size_t row_bytes, int lane) {
  if constexpr (kKind == WeightKind::bfloat) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 8 + 4 * i, piece = lane % 8;
      copy_async(stage + row * 128 + ((piece ^ (row % 8)) * 16),
                 panel + row * row_bytes + (block * 128 + piece * 16));
    }
  } else {
    const int bytes = n * record_bytes(kKind);
    const std::byte* from = panel + static_cast<std::size_t>(block) * record_bytes(kKind);
#pragma unroll
    for (int i = 0; i < (stage_records(kKind) * record_bytes(kKind) + 511) / 512; ++i) {
      const int at = lane * 16 + i * 512;
      if (at < bytes) copy_async(stage + at, from + at);
    }
  }
}

// The stages of one warp's chunk of every unit of its group, in order.
template <WeightKind kKind>
class WeightRing {
 public:
  static constexpr int kStages = few_stages(kKind);
  static constexpr int kRecords = stage_records(kKind);
  static constexpr int kPanelBytes = kRecords * panel_block_bytes(kKind);

  __device__ __forceinline__ WeightRing(const ProductArgs& args, std::byte* memory, int first_unit,
                                        int unit_step, int begin, int end, int lane)
      : args_(args),
        memory_(memory),
        unit_(first_unit),
        unit_step_(unit_step),
        begin_(begin),
        end_(end),
        lane_(lane),
        block_(begin) {
    if (begin_ >= end_) unit_ = args.units;  // nothing to read
    aim();
  }

  // Starts the next stage's copies; a group of copies even if there is none.
  __device__ __forceinline__ void issue() {
    if (unit_ < args_.units) {
      const int n = min(kRecords, end_ - block_);
      const std::uint32_t stage = shared_address(memory_) + slot_ * 2 * kPanelBytes;
      const std::size_t row_bytes = static_cast<std::size_t>(args_.blocks) * kBlockColumns * 2;
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        copy_blocks<kKind>(stage + p * kPanelBytes, panels_[p], block_, n, row_bytes, lane_);
      }
      block_ += kRecords;
      if (block_ >= end_) {
        block_ = begin_;
        unit_ += unit_step_;
        aim();
      }
    }
    commit_copies();
    slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
  }

  // The oldest stage, once it has arrived; valid until the next issue().
  __device__ __forceinline__ const std::byte* wait() {
    wait_for_copies<kStages - 1>();
    __syncwarp();
    return memory_ + slot_ * 2 * kPanelBytes;
  }

 private:
  __device__ __forceinline__ void aim() {
    if (unit_ >= args_.units) return;
    const UnitPlace place(args_, unit_);
    panels_[0] = place.panel(args_, 0);
    panels_[1] = place.panel(args_, 1);
  }

  const ProductArgs& args_;
  std::byte* memory_;
  int unit_, unit_step_, begin_, end_, lane_, block_;
  int slot_ = 0;
  const std::byte* panels_[2] = {};
};

// Input columns [first, first + width) of all tokens to shared memory; zeros past the matrix.
__device__ __forceinline__ void stage_input(const ProductArgs& args, int first, int width,
                                            std::byte* to, std::size_t stride) {
  const int pieces = width / 8;
  const bool aligned =
      args.columns % 8 == 0 && reinterpret_cast<std::uintptr_t>(args.input) % 16 == 0;
  for (int i = threadIdx.x; i < args.tokens * pieces; i += blockDim.x) {
    const int token = i / pieces, column = first + i % pieces * 8;
    const __nv_bfloat16* from =
        args.input + static_cast<std::int64_t>(token) * args.columns + column;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (aligned) {
      if (column < args.columns) value = *reinterpret_cast<const uint4*>(from);
    } else {
      std::uint32_t words[4] = {};
      for (int e = 0; e < 8 && column + e < args.columns; ++e) {
        words[e / 2] |= static_cast<std::uint32_t>(__bfloat16_as_ushort(from[e])) << (16 * (e % 2));
      }
      value = make_uint4(words[0], words[1], words[2], words[3]);
    }
    *reinterpret_cast<uint4*>(to + token * stride + (i % pieces) * 16) = value;
  }
}

// Adds one tile of 16 columns of both panels.
template <WeightKind kKind, int kTokenTiles, int tile>
__device__ __forceinline__ void add_tile(float (&sums)[2][kTokenTiles][4],
                                         const LaneWeights<kKind> (&weights)[2],
                                         const std::uint32_t (&input)[kTokenTiles][2]) {
  constexpr int kParts = LaneWeights<kKind>::kParts;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    std::uint32_t a[kParts][4];
    weights[p].template fragment<tile>(a);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        multiply_add(sums[p][n], a[part], input[n][0], input[n][1]);
      }
    }
  }
}

// Adds one block of 64 columns; `input` is the lane's address of the block's first column.
template <WeightKind kKind, int kTokenTiles>
__device__ __forceinline__ void add_block(float (&sums)[2][kTokenTiles][4],
                                          const LaneWeights<kKind> (&weights)[2],
                                          std::uint32_t input) {
  if constexpr (kTokenTiles == 1) {  // a load is 8 tokens x 32 columns
    std::uint32_t b[2][4];
    load_matrices(b[0], input);
    load_matrices(b[1], input + 64);
    const std::uint32_t tiles[4][1][2] = {
        {{b[0][0], b[0][1]}}, {{b[0][2], b[0][3]}}, {{b[1][0], b[1][1]}}, {{b[1][2], b[1][3]}}};
    add_tile<kKind, 1, 0>(sums, weights, tiles[0]);
    add_tile<kKind, 1, 1>(sums, weights, tiles[1]);
    add_tile<kKind, 1, 2>(sums, weights, tiles[2]);
    add_tile<kKind, 1, 3>(sums, weights, tiles[3]);
  } else {  // 16 tokens x 16 columns
    std::uint32_t b[4][4];
#pragma unroll
    for (int t = 0; t < 4; ++t) load_matrices(b[t], input + 32 * t);
    const std::uint32_t tiles[4][2][2] = {{{b[0][0], b[0][1]}, {b[0][2], b[0][3]}},
                                          {{b[1][0], b[1][1]}, {b[1][2], b[1][3]}},
                                          {{b[2][0], b[2][1]}, {b[2][2], b[2][3]}},
                                          {{b[3][0], b[3][1]}, {b[3][2], b[3][3]}}};
    add_tile<kKind, 2, 0>(sums, weights, tiles[0]);
    add_tile<kKind, 2, 1>(sums, weights, tiles[1]);
    add_tile<kKind, 2, 2>(sums, weights, tiles[2]);
    add_tile<kKind, 2, 3>(sums, weights, tiles[3]);
  }
}

// Writes a warp's sums as [token][stride] floats, 32 rows each.
template <int kTokenTiles>
__device__ __forceinline__ void spread_sums(const float (&sums)[2][kTokenTiles][4], int tokens,
                                            int stride, int lane, float* to) {
#pragma unroll
  for (int p = 0; p < 2; ++p) {
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

// Adds `count` addends of [token][stride] floats each and stores the unit.
template <bool kShared>
__device__ __forceinline__ void add_and_store(const ProductArgs& args, int unit,
                                              const UnitGroup& group, const float* addends,
                                              int count, int addend_floats, int stride) {
  const UnitPlace place(args, unit);
  const auto total = [&](int token, int row) {
    const float* from = addends + token * stride + row;
    float sum = 0;
    for (int i = 0; i < count; ++i) {
      sum += kShared ? from[i * addend_floats] : __ldcg(from + i * addend_floats);
    }
    return sum;
  };
  if (args.gated) {
    for (int i = group.thread; i < args.tokens * kPanelRows; i += group.threads) {
      const int token = i / kPanelRows, r = i % kPanelRows;
      store_gated(args, place, r, token, total(token, r), total(token, r + kPanelRows));
    }
    return;
  }
  for (int i = group.thread; i < args.tokens * kUnitRows; i += group.threads) {
    const int token = i / kUnitRows, r = i % kUnitRows;
    store_sum(args, place, r, token, total(token, r));
  }
}

// Whether this group is the last of all slices to have written its partial sums of a unit.
__device__ __forceinline__ bool last_of_unit(const ProductArgs& args, int unit,
                                             const UnitGroup& group, std::uint32_t* shared) {
  __threadfence();
  group.sync();
  if (group.thread == 0) *shared = atomicAdd(args.counters + unit, 1u);
  group.sync();
  const bool last = *shared + 1 == static_cast<std::uint32_t>(args.slices);
  if (last) {
    __threadfence();
    if (group.thread == 0) args.counters[unit] = 0;
  }
  return last;
}

template <WeightKind kKind, int kTokenTiles>
__global__ void __launch_bounds__(few_threads(kTokenTiles), 1)
    few_tokens(const __grid_constant__ ProductArgs args) {
  extern __shared__ __align__(128) std::byte memory[];
  constexpr int kRecords = stage_records(kKind);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group_warps = args.slice_chunks;
  const int slice = blockIdx.x % args.slices, peers = gridDim.x / args.slices;
  const int group = warp / group_warps, chunk = slice * group_warps + warp % group_warps;
  const int begin = min(chunk * args.chunk_blocks, args.blocks);
  const int end = min(begin + args.chunk_blocks, args.blocks);
  const int slice_begin = min(slice * group_warps * args.chunk_blocks, args.blocks);
  const int slice_blocks = group_warps * args.chunk_blocks;
  const std::size_t input_stride = few_input_stride(slice_blocks);
  const int sum_floats = args.tokens * kSumStride;

  // Shared memory: rings, input, sums, a word for each group.
  std::byte* input = memory + blockDim.x / 32 * few_ring_bytes(kKind);
  float* sums_memory = reinterpret_cast<float*>(input + args.tokens * input_stride);
  float* group_sums = sums_memory + group * group_warps * sum_floats;
  auto* word = reinterpret_cast<std::uint32_t*>(sums_memory + blockDim.x / 32 * sum_floats) + group;

  const int first_unit = blockIdx.x / args.slices + group * peers, unit_step = peers * args.groups;
  WeightRing<kKind> ring(args, memory + warp * few_ring_bytes(kKind), first_unit, unit_step, begin,
                         end, lane);
#pragma unroll 1
  for (int i = 0; i < WeightRing<kKind>::kStages; ++i) ring.issue();
  let_next_start();
  wait_for_inputs();
  stage_input(args, slice_begin * kBlockColumns, slice_blocks * kBlockColumns, input, input_stride);
  __syncthreads();

  const int matrix = lane / 8;
  const int token = min(kTokenTiles == 1 ? lane % 8 : matrix / 2 * 8 + lane % 8, args.tokens - 1);
  const int piece = kTokenTiles == 1 ? matrix : matrix % 2;
  const std::uint32_t lane_input = shared_address(input) + token * input_stride + piece * 16;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  const UnitGroup unit_group{static_cast<int>(threadIdx.x) - group * group_warps * 32,
                             group_warps * 32, group + 1};

  for (int unit = first_unit; unit < args.units; unit += unit_step) {
    float sums[2][kTokenTiles][4] = {};
#pragma unroll 1
    for (int block = begin; block < end; block += kRecords) {
      const std::byte* stage = ring.wait();
#pragma unroll
      for (int r = 0; r < kRecords; ++r) {
        if (block + r < end) {
          LaneWeights<kKind> weights[2];
#pragma unroll
          for (int p = 0; p < 2; ++p) {
            weights[p].load(stage + (p * kRecords + r) * panel_block_bytes(kKind), lane, table);
          }
          add_block<kKind, kTokenTiles>(sums, weights,
                                        lane_input + (block + r - slice_begin) * 128);
        }
      }
      __syncwarp();
      ring.issue();
    }
    float* partials = args.partials;
    const int count = args.partial_chunks ? args.chunks : args.slices;
    const int partial_floats = args.tokens * kUnitRows;
    partials += static_cast<std::size_t>(unit) * count * partial_floats;
    if (args.slices > 1 && args.partial_chunks) {
      if (chunk < args.chunks) {
        spread_sums(sums, args.tokens, kUnitRows, lane, partials + chunk * partial_floats);
      }
    } else {
      spread_sums(sums, args.tokens, kSumStride, lane,
                  group_sums + warp % group_warps * sum_floats);
      unit_group.sync();
      const int addends = min(group_warps, args.chunks - slice * group_warps);
      if (args.slices == 1) {
        add_and_store<true>(args, unit, unit_group, group_sums, addends, sum_floats, kSumStride);
        unit_group.sync();
        continue;
      }
      for (int i = unit_group.thread; i < partial_floats; i += unit_group.threads) {
        float sum = 0;
        for (int a = 0; a < addends; ++a) {
          sum += group_sums[a * sum_floats + i / kUnitRows * kSumStride + i % kUnitRows];
        }
        partials[slice * partial_floats + i] = sum;
      }
    }
    if (last_of_unit(args, unit, unit_group, word)) {
      add_and_store<false>(args, unit, unit_group, partials, count, partial_floats, kUnitRows);
    }
    unit_group.sync();
  }
  wait_for_copies<0>();
}

}  // namespace quire::cuda
