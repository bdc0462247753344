#pragma once

#include <type_traits>

#include "attention/attention_args.h"
#include "attention/kv_format.cuh"
#include "attention/softmax_step.cuh"
#include "attention/tile_policy.h"

namespace quire::cuda {

// A tile of one sequence and key-value head: rows [first, first + rows) of its tokens x group.
struct Tile {
  int sequence, head;
  int first, rows;
  int pass_row;  // row of the pass of the sequence's first token
  int first_position;
  int first_key, end_key;  // seen by any row
  int last_first_key;      // of the last row, whose window starts last
  int first_row_end;       // keys seen by the first row end here

  __device__ Tile(const AttentionArgs& args, const WorkItem& item, int head, int tile_rows)
      : sequence(item.sequence), head(head), first(item.tile * tile_rows) {
    pass_row = args.sequences.first_row[sequence];
    first_position = args.sequences.first_position[sequence];
    rows = min(tile_rows, args.sequences.rows[sequence] * args.group - first);
    const int first_token = first / args.group;
    const int last_token = (first + rows - 1) / args.group;
    first_row_end = first_position + first_token + 1;
    end_key = first_position + last_token + 1;
    first_key = args.window > 0 ? max(0, first_row_end - args.window) : 0;
    last_first_key = args.window > 0 ? max(0, end_key - args.window) : 0;
    end_key = min(end_key, item.end_split * kSplitKeys);
    first_key = max(first_key, item.first_split * kSplitKeys);
  }

  __device__ int first_block() const { return first_key / kKeyBlock; }
  __device__ int end_block() const { return (end_key + kKeyBlock - 1) / kKeyBlock; }
  // Whether some row does not see all keys of the block.
  __device__ bool masked(int block) const {
    return (block + 1) * kKeyBlock > first_row_end || block * kKeyBlock < last_first_key;
  }
  // Keys that a row sees, first and one past the last; none for rows past the tile's.
  __device__ int2 bounds(const AttentionArgs& args, int row) const {
    if (row >= rows) return make_int2(0, 0);
    const int end = first_position + (first + row) / args.group + 1;
    return make_int2(args.window > 0 ? max(0, end - args.window) : 0, end);
  }
  // Query head of a row.
  __device__ int query_head(const AttentionArgs& args, int row) const {
    return head * args.group + (first + row) % args.group;
  }
  // Of the row in queries and outputs [total_rows][heads].
  __device__ std::size_t place(const AttentionArgs& args, int row) const {
    const int token = pass_row + (first + row) / args.group;
    return static_cast<std::size_t>(token) * args.heads + query_head(args, row);
  }
};

// Queries to shared memory in the operand's type, zeros in rows past the tile's and in columns past
// the head's. float16 has a smaller range than bf16: what passes it becomes the largest number.
template <class Format, int kHeadSize, int kRows, int kThreads>
__device__ inline void load_queries(const AttentionArgs& args, const Tile& tile, std::byte* to,
                                    int pitch) {
  constexpr int kWidth = padded_width(kHeadSize);
  constexpr int kChunks = kWidth / 8;  // of 8 elements
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i - row * kChunks;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (row < tile.rows && chunk * 8 < kHeadSize) {
      eight = *reinterpret_cast<const uint4*>(args.query + tile.place(args, row) * kHeadSize +
                                              chunk * 8);
    }
    unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
    unsigned* sixteen = reinterpret_cast<unsigned*>(to + row * pitch + (chunk / 2) * 32);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (std::is_same_v<typename Format::Operand, __half>) {
        const float low = __uint_as_float(pairs[j] << 16);
        const float high = __uint_as_float(pairs[j] & 0xffff0000u);
        pairs[j] = pack(fminf(fmaxf(low, -65504.0f), 65504.0f),
                        fminf(fmaxf(high, -65504.0f), 65504.0f), __half{});
      }
      sixteen[Format::query_pair((chunk & 1) * 4 + j)] = pairs[j];
    }
  }
}

// Zeros in the columns of keys and values that pad the head to a multiple of 16.
template <class Format, int kHeadSize, int kThreads>
__device__ inline void clear_padding(std::byte* stages, int rows, int pitch, int stage, int slot) {
  constexpr int kPadding = (padded_width(kHeadSize) - kHeadSize) * Format::kBytes;
  if constexpr (kPadding > 0) {
    for (int i = threadIdx.x; i < rows; i += kThreads) {
      std::byte* row =
          stages + i / (2 * kKeyBlock) * stage + i / kKeyBlock % 2 * slot + i % kKeyBlock * pitch;
      for (int j = 0; j < kPadding; j += 4) {
        *reinterpret_cast<unsigned*>(row + kHeadSize * Format::kBytes + j) = 0;
      }
    }
  }
}

// The next item of a list, fetched while the one in hand is worked on. Every thread block of the
// grid goes through take() until it gets -1.
struct ItemQueue {
  int* next;
  int* done;
  int count;    // items times key-value heads
  int* shared;  // [2]

  // Thread 0 asks for the item after the one in hand; all call take() later, between barriers.
  __device__ void ask() const {
    if (threadIdx.x == 0) shared[0] = atomicAdd(next, 1);
  }
  __device__ int take() const { return shared[0] < count ? shared[0] : -1; }
  // The last block of the grid leaves the counters as the next launch needs them.
  __device__ void leave() const {
    if (threadIdx.x != 0) return;
    if (atomicAdd(done, 1) == static_cast<int>(gridDim.x) - 1) {
      *next = 0;
      *done = 0;
    }
  }
};

// Transforms that depend on the call, then the mask.
template <class Format>
__device__ inline void prepare_scores(const AttentionArgs& args, const Tile& tile, int block,
                                      BlockScores& scores, const float* key_scales,
                                      const int2* bounds, int row, int lane) {
  if constexpr (Format::kScaled) scale_scores(scores, key_scales, lane);
  if (args.soft_cap > 0) cap_scores(scores, args.soft_cap_inner, args.soft_cap);
  if (tile.masked(block)) mask_scores(scores, block, bounds[row], bounds[row + 8], lane);
}

// 16 keys of the scores as the first operand of the product with the values.
template <class Format>
__device__ inline void pack_scores(unsigned (&to)[4], const BlockScores& scores, int step) {
  using Operand = typename Format::Operand;
  to[0] = pack(scores[2 * step][0], scores[2 * step][1], Operand{});
  to[1] = pack(scores[2 * step][2], scores[2 * step][3], Operand{});
  to[2] = pack(scores[2 * step + 1][0], scores[2 * step + 1][1], Operand{});
  to[3] = pack(scores[2 * step + 1][2], scores[2 * step + 1][3], Operand{});
}

// Sums of a lane over a pair of 8-column tiles: [tile][element], elements 0, 1 of the top row.
using PairSums = float[2][4];

// Writes the lane's part of two rows of a pair: outputs, or partial sums.
template <class Format, int kHeadSize>
__device__ inline void store_output(__nv_bfloat16* row, const PairSums& sums, int pair, int half,
                                    float factor, int lane) {
  if constexpr (Format::kScaled) {
    const int column = pair * 16 + Format::column(lane, 0, 0);
    if (kHeadSize % 16 != 0 && column >= kHeadSize) return;
    const uint2 four = {
        pack(sums[0][2 * half] * factor, sums[1][2 * half] * factor, __nv_bfloat16{}),
        pack(sums[0][2 * half + 1] * factor, sums[1][2 * half + 1] * factor, __nv_bfloat16{})};
    *reinterpret_cast<uint2*>(row + column) = four;
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = pair * 16 + Format::column(lane, i, 0);
      if (kHeadSize % 16 != 0 && column >= kHeadSize) return;
      *reinterpret_cast<unsigned*>(row + column) =
          pack(sums[i][2 * half] * factor, sums[i][2 * half + 1] * factor, __nv_bfloat16{});
    }
  }
}

template <class Format, int kHeadSize>
__device__ inline void store_partial(float* row, const PairSums& sums, int pair, int half,
                                     int lane) {
  if constexpr (Format::kScaled) {
    const int column = pair * 16 + Format::column(lane, 0, 0);
    if (kHeadSize % 16 != 0 && column >= kHeadSize) return;
    *reinterpret_cast<float4*>(row + column) = make_float4(
        sums[0][2 * half], sums[1][2 * half], sums[0][2 * half + 1], sums[1][2 * half + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = pair * 16 + Format::column(lane, i, 0);
      if (kHeadSize % 16 != 0 && column >= kHeadSize) return;
      *reinterpret_cast<float2*>(row + column) =
          make_float2(sums[i][2 * half], sums[i][2 * half + 1]);
    }
  }
}

}  // namespace quire::cuda
