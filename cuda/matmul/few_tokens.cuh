#pragma once

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"
#include "matmul/weight_format.cuh"

// Products with up to 8 tokens: bound by reading the weights. A thread block keeps its slice of
// the input in shared memory; each warp streams one chunk of the columns of one unit of 32 rows
// after the other through a ring of its own; the warps of a group hold the chunks of one unit and
// add them up in shared memory.
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

// The blocks of one warp's chunk of every unit of its group, in order. Records come as bulk copies
// that one lane starts, where the processor has them.
template <WeightKind kKind>
class WeightRing {
 public:
  static constexpr int kBlockBytes = panel_block_bytes(kKind);
  static constexpr int kBlocks = few_stage_blocks(kKind);  // of a stage
  static constexpr int kPanelBytes = kBlocks * kBlockBytes;
  static constexpr bool kBulk = kBulkCopies && kKind != WeightKind::bfloat;

  __device__ __forceinline__ WeightRing(const ProductArgs& args, std::byte* memory,
                                        std::byte* barriers, int first_unit, int unit_step,
                                        int begin, int end, int lane)
      : args_(args),
        memory_(memory),
        stage_(shared_address(memory)),
        barrier_(shared_address(barriers)),
        unit_(begin < end ? first_unit : args.units),
        unit_step_(unit_step),
        begin_(begin),
        end_(end),
        lane_(lane) {
    if (lane == 0) {
#pragma unroll 1
      for (int i = 0; i < args.stages; ++i) init_barrier(barrier_ + 8 * i, kBulk ? 1 : 32);
      fence_barriers();
    }
    __syncwarp();
    aim();
  }

  // Starts the copies of the next blocks into a free stage.
  __device__ __forceinline__ void issue(int slot) {
    if (unit_ >= args_.units) return;
    const std::uint32_t stage = stage_ + slot * 2 * kPanelBytes;
    const std::uint32_t barrier = barrier_ + 8 * slot;
    if constexpr (kBulk) {
      if (lane_ == 0) {
        const int bytes = min(kBlocks, left_) * kBlockBytes;
        expect_bytes(barrier, 2 * bytes);
        copy_bulk(stage, from_[0], bytes, barrier);
        copy_bulk(stage + kPanelBytes, from_[1], bytes, barrier);
      }
    } else {
      const std::size_t row_bytes = static_cast<std::size_t>(args_.blocks) * kBlockColumns * 2;
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        if (i < left_) {
          copy_block<kKind>(stage + i * kBlockBytes, from_[0], i, row_bytes, lane_);
          copy_block<kKind>(stage + kPanelBytes + i * kBlockBytes, from_[1], i, row_bytes, lane_);
        }
      }
      arrive_after_copies(barrier);
    }
    from_[0] += kBlocks * kStep;
    from_[1] += kBlocks * kStep;
    left_ -= kBlocks;
    if (left_ <= 0) {
      unit_ += unit_step_;
      aim();
    }
  }
  __device__ __forceinline__ void fill() {
#pragma unroll 1
    for (int i = 0; i < args_.stages; ++i) issue(i);
  }

  // The oldest stage, once it has arrived; valid until next(). Block i of panel p is at
  // p * kPanelBytes + i * kBlockBytes.
  __device__ __forceinline__ const std::byte* wait() {
    wait_barrier(barrier_ + 8 * slot_, parity_);
    return memory_ + slot_ * 2 * kPanelBytes;
  }
  __device__ __forceinline__ void next() {
    __syncwarp();
    issue(slot_);
    if (++slot_ == args_.stages) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  // Bytes from a block to the next one of a panel.
  static constexpr int kStep = kKind == WeightKind::bfloat ? kBlockColumns * 2 : kBlockBytes;

  __device__ __forceinline__ void aim() {
    if (unit_ >= args_.units) return;
    const UnitPlace place(args_, unit_);
    from_[0] = place.panel(args_, 0) + static_cast<std::size_t>(begin_) * kStep;
    from_[1] = place.panel(args_, 1) + static_cast<std::size_t>(begin_) * kStep;
    left_ = end_ - begin_;
  }

  const ProductArgs& args_;
  std::byte* memory_;
  std::uint32_t stage_, barrier_;
  int unit_, unit_step_, begin_, end_, lane_;
  int left_ = 0;  // blocks of the unit from from_ on
  int slot_ = 0;
  std::uint32_t parity_ = 0;
  const std::byte* from_[2] = {};
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
    std::byte* piece = to + token * stride + (i % pieces) * 16;
    if (aligned) {
      const bool valid = column < args.columns;
      copy_async_or_zero(shared_address(piece), valid ? from : args.input, valid);
      continue;
    }
    std::uint32_t words[4] = {};
    for (int e = 0; e < 8 && column + e < args.columns; ++e) {
      words[e / 2] |= static_cast<std::uint32_t>(__bfloat16_as_ushort(from[e])) << (16 * (e % 2));
    }
    *reinterpret_cast<uint4*>(piece) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

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
  const Outputs outputs(args, place);
  for (int i = group.thread; i < args.tokens * kUnitRows; i += group.threads) {
    const int token = i / kUnitRows, r = i % kUnitRows;
    outputs.store(r, token, total(token, r));
  }
}

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

template <WeightKind kKind>
__global__ void __launch_bounds__(kFewThreads, 1)
    few_tokens(const __grid_constant__ ProductArgs args) {
  extern __shared__ __align__(1024) std::byte memory[];
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

  // Shared memory: rings, input, sums, barriers, a word for each group.
  const int ring_bytes = args.stages * few_stage_bytes(kKind);
  std::byte* input = memory + blockDim.x / 32 * ring_bytes;
  float* sums_memory = reinterpret_cast<float*>(input + args.tokens * input_stride);
  float* group_sums = sums_memory + group * group_warps * sum_floats;
  std::byte* barriers = reinterpret_cast<std::byte*>(sums_memory + blockDim.x / 32 * sum_floats);
  auto* word =
      reinterpret_cast<std::uint32_t*>(barriers + blockDim.x / 32 * args.stages * 8) + group;

  const int first_unit = blockIdx.x / args.slices + group * peers, unit_step = peers * args.groups;
  using Ring = WeightRing<kKind>;
  Ring ring(args, memory + warp * ring_bytes, barriers + warp * args.stages * 8, first_unit,
            unit_step, begin, end, lane);
  ring.fill();
  allow_next_kernel();
  wait_for_previous_kernel();
  stage_input(args, slice_begin * kBlockColumns, slice_blocks * kBlockColumns, input, input_stride);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();

  const int token = min(lane % 8, args.tokens - 1);
  const std::uint32_t lane_input = shared_address(input) + token * input_stride + lane / 8 * 16;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  const UnitGroup unit_group{static_cast<int>(threadIdx.x) - group * group_warps * 32,
                             group_warps * 32, group + 1};

  for (int unit = first_unit; unit < args.units; unit += unit_step) {
    float sums[2][1][4] = {};
#pragma unroll 1
    for (int block = begin; block < end; block += Ring::kBlocks) {
      const std::byte* stage = ring.wait();
#pragma unroll
      for (int i = 0; i < Ring::kBlocks; ++i) {
        if (i == 0 || block + i < end) {
          LaneWeights<kKind> weights[2];
          weights[0].load(stage + i * Ring::kBlockBytes, lane, table);
          weights[1].load(stage + Ring::kPanelBytes + i * Ring::kBlockBytes, lane, table);
          add_block<kKind>(sums, weights, lane_input + (block + i - slice_begin) * 128);
        }
      }
      ring.next();
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
    if (last_to_come(args, unit, args.slices, unit_group, word)) {
      add_and_store<false>(args, unit, unit_group, partials, count, partial_floats, kUnitRows);
    }
    unit_group.sync();
  }
}

}  // namespace quire::cuda
