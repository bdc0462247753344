#pragma once

#include <type_traits>

#include "attention/attention_args.h"
#include "attention/kv_format.cuh"
#include "attention/softmax_step.cuh"
#include "attention/tile_policy.h"

namespace quire::cuda {

// A tile of one sequence and key-value head: rows [first, first + rows) of its tokens x group. It
// lies in shared memory, made by one thread: registers are short.
struct Tile {
  int head;
  int first, rows;
  int pass_row;  // row of the pass of the sequence's first token
  int first_position;
  int first_key, end_key;  // seen by any row
  int last_first_key;      // of the last row, whose window starts last
  int first_row_end;       // keys seen by the first row end here
  int first_page;          // of the sequence's page table
  int item_first_key;      // of the item's splits
  int partial, merge;      // see WorkItem
  PrefixPart prefix;

  __device__ Tile(const AttentionArgs& args, const WorkItem& item, int head)
      : head(head),
        first(item.first),
        rows(item.rows),
        pass_row(item.pass_row),
        first_position(item.first_position),
        first_page(item.first_page),
        item_first_key(item.first_key),
        partial(item.partial),
        merge(item.merge),
        prefix(item.prefix) {
    const int first_token = first / args.group;
    const int last_token = (first + rows - 1) / args.group;
    first_row_end = first_position + first_token + 1;
    end_key = first_position + last_token + 1;
    first_key = args.window > 0 ? max(0, first_row_end - args.window) : 0;
    last_first_key = args.window > 0 ? max(0, end_key - args.window) : 0;
    end_key = min(end_key, item.end_key);
    first_key = max(first_key, item.first_key);
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

// Place of a row's result among the partial results: of the item's split `split`, counted from 0.
__device__ inline std::size_t partial_row(const AttentionArgs& args, const Tile& tile, int split,
                                          int row) {
  return static_cast<std::size_t>(tile.partial) +
         (static_cast<std::size_t>(split) * args.kv_heads + tile.head) * tile.rows + row;
}

// Whether kernels of a width serve only heads of that size.
template <int kWidth>
constexpr bool kWholeHeads = kWidth == 64 || kWidth == 128;

template <int kWidth>
__device__ inline int head_size(const AttentionArgs& args) {
  return kWholeHeads<kWidth> ? kWidth : args.head_size;
}

// Queries to shared memory in the operand's type, zeros in rows past the tile's and in columns past
// the head's. float16 has a smaller range than bf16: what passes it becomes the largest number.
template <class Format, int kWidth, int kRows, int kThreads>
__device__ inline void load_queries(const AttentionArgs& args, const Tile& tile, std::byte* to,
                                    int pitch) {
  constexpr int kChunks = kWidth / 8;  // of 8 elements
  const int size = head_size<kWidth>(args);
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i - row * kChunks;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (row < tile.rows && (kWholeHeads<kWidth> || chunk * 8 < size)) {
      eight =
          *reinterpret_cast<const uint4*>(args.query + tile.place(args, row) * size + chunk * 8);
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

// The items of a list, times key-value heads, shared out to the thread blocks of a grid: to each
// the one of its own index, then one after the other. The next is fetched while one is worked on.
// Thread 0 does it all; the tile is for all to see, with no rows when there are no more items.
struct SharedQueue {
  Tile tile;
  int count;  // items times key-value heads
  int index;  // of the next
  int last;   // whether the item ended last of its tile's
  alignas(16) WorkItem item;
};

class ItemQueue {
 public:
  __device__ ItemQueue(const AttentionArgs& args, const WorkItem* items, int* next, int* done,
                       SharedQueue* shared)
      : args_(args), items_(items), next_(next), done_(done), shared_(*shared) {}

  // A barrier is due after this, and before and after advance.
  __device__ void start(const int& item_count) {
    if (threadIdx.x != 0) return;
    // Both loads at once; there may be fewer items, but not less memory.
    const WorkItem item =
        items_[min(static_cast<int>(blockIdx.x) / args_.kv_heads, args_.plan.item_capacity - 1)];
    shared_.count = item_count * args_.kv_heads;
    take(item, blockIdx.x);
  }

  // Asks for the index of the next; nothing waits for it before fetch, which starts to copy it.
  __device__ int ask() const {
    return threadIdx.x == 0 ? static_cast<int>(gridDim.x) + atomicAdd(next_, 1) : 0;
  }
  __device__ void fetch(int asked) {
    if (threadIdx.x != 0) return;
    shared_.index = asked;
    const int4* from = reinterpret_cast<const int4*>(
        items_ + min(asked / args_.kv_heads, args_.plan.item_capacity - 1));
    copy_async<16>(shared_address(&shared_.item), from, true);
    copy_async<16>(shared_address(&shared_.item) + 16, from + 1, true);
    copy_async<16>(shared_address(&shared_.item) + 32, from + 2, true);
  }
  // All copies have been waited for.
  __device__ void advance() {
    if (threadIdx.x == 0) take(shared_.item, shared_.index);
  }
  // The last block of the grid leaves the counters as the next launch needs them.
  __device__ void leave() const {
    if (threadIdx.x != 0) return;
    if (atomicAdd(done_, 1) == static_cast<int>(gridDim.x) - 1) {
      *next_ = 0;
      *done_ = 0;
    }
  }

 private:
  __device__ void take(const WorkItem& item, int index) {
    if (index < shared_.count) {
      shared_.tile = Tile(args_, item, index % args_.kv_heads);
    } else {
      shared_.tile.rows = 0;
    }
  }

  const AttentionArgs& args_;
  const WorkItem* items_;
  int* next_;
  int* done_;
  SharedQueue& shared_;
};
static_assert(sizeof(SharedQueue) <= kQueueBytes);
static_assert(sizeof(WorkItem) == 48);

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

// Writes the lane's part of two rows of a pair: outputs, or partial sums. `size`: of the head.
template <class Format, int kWidth>
__device__ inline void store_output(__nv_bfloat16* row, int size, const PairSums& sums, int pair,
                                    int half, float factor, int lane) {
  if constexpr (Format::kInterleaved) {
    const int column = pair * 16 + Format::column(lane, 0, 0);
    if (!kWholeHeads<kWidth> && column >= size) return;
    const uint2 four = {
        pack(sums[0][2 * half] * factor, sums[1][2 * half] * factor, __nv_bfloat16{}),
        pack(sums[0][2 * half + 1] * factor, sums[1][2 * half + 1] * factor, __nv_bfloat16{})};
    *reinterpret_cast<uint2*>(row + column) = four;
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = pair * 16 + Format::column(lane, i, 0);
      if (!kWholeHeads<kWidth> && column >= size) return;
      *reinterpret_cast<unsigned*>(row + column) =
          pack(sums[i][2 * half] * factor, sums[i][2 * half + 1] * factor, __nv_bfloat16{});
    }
  }
}

// Reads the lane's part of two rows of a pair from partial sums.
template <class Format, int kWidth>
__device__ inline void load_partial(const float* row, int size, PairSums& sums, int pair, int half,
                                    int lane) {
  if constexpr (Format::kInterleaved) {
    const int column = pair * 16 + Format::column(lane, 0, 0);
    if (!kWholeHeads<kWidth> && column >= size) return;
    const float4 four = __ldcg(reinterpret_cast<const float4*>(row + column));
    sums[0][2 * half] = four.x;
    sums[1][2 * half] = four.y;
    sums[0][2 * half + 1] = four.z;
    sums[1][2 * half + 1] = four.w;
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = pair * 16 + Format::column(lane, i, 0);
      if (!kWholeHeads<kWidth> && column >= size) return;
      const float2 two = __ldcg(reinterpret_cast<const float2*>(row + column));
      sums[i][2 * half] = two.x;
      sums[i][2 * half + 1] = two.y;
    }
  }
}

template <class Format, int kWidth>
__device__ inline void store_partial(float* row, int size, const PairSums& sums, int pair, int half,
                                     int lane) {
  if constexpr (Format::kInterleaved) {
    const int column = pair * 16 + Format::column(lane, 0, 0);
    if (!kWholeHeads<kWidth> && column >= size) return;
    *reinterpret_cast<float4*>(row + column) = make_float4(
        sums[0][2 * half], sums[1][2 * half], sums[0][2 * half + 1], sums[1][2 * half + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = pair * 16 + Format::column(lane, i, 0);
      if (!kWholeHeads<kWidth> && column >= size) return;
      *reinterpret_cast<float2*>(row + column) =
          make_float2(sums[i][2 * half], sums[i][2 * half + 1]);
    }
  }
}

}  // namespace quire::cuda
