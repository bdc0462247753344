#include "attention/plan.h"

#include <algorithm>

#include "attention/tile_policy.h"

namespace quire::cuda {
namespace {

constexpr int kPlanThreads = 1024;
constexpr int kMergeRows = 16;

// A row of partial results is worth its memory only as long as splitting brings work for idle
// multiprocessors: so many rows for each of them.
constexpr int kPartialRowsPerSm = 512;

// What a sequence adds to the lists.
struct SequenceWork {
  int small_items = 0, large_items = 0, merges = 0, partial_rows = 0;
};

// The tiles of a sequence.
struct SequenceTiles {
  int rows = 0;  // tokens x group
  int tile_rows = 0, tiles = 0;
  int first_position = 0;
  bool small = false;

  __device__ SequenceTiles(const PlanArgs& args, int sequence) {
    const int tokens = args.sequences.rows[sequence];
    first_position = args.sequences.first_position[sequence];
    rows = tokens * args.group;
    small = rows <= args.small_limit;
    tile_rows = small ? kSmallRows : kLargeRows;
    tiles = (rows + tile_rows - 1) / tile_rows;
  }

  __device__ int rows_of(int tile) const { return min(tile_rows, rows - tile * tile_rows); }
  // Keys seen by any row of a tile.
  __device__ int2 keys(const PlanArgs& args, int tile) const {
    const int first_end = first_position + tile * tile_rows / args.group + 1;
    const int end = first_position + (tile * tile_rows + rows_of(tile) - 1) / args.group + 1;
    return make_int2(args.window > 0 ? max(0, first_end - args.window) : 0, end);
  }
  __device__ int blocks(const PlanArgs& args, int tile) const {
    const int2 seen = keys(args, tile);
    return (seen.y + kKeyBlock - 1) / kKeyBlock - seen.x / kKeyBlock;
  }
  // Splits with keys of a tile.
  __device__ int2 splits(const PlanArgs& args, int tile) const {
    const int2 seen = keys(args, tile);
    return make_int2(seen.x / kSplitKeys, (seen.y + kSplitKeys - 1) / kSplitKeys);
  }

  __device__ SequenceWork work(const PlanArgs& args, bool split) const {
    SequenceWork sum;
    int items = tiles;
    if (split) {
      items = 0;
      for (int tile = 0; tile < tiles; ++tile) {
        const int2 range = splits(args, tile);
        const int count = range.y - range.x;
        items += count;
        if (count == 1) continue;
        sum.merges += (rows_of(tile) + kMergeRows - 1) / kMergeRows;
        sum.partial_rows += count * args.kv_heads * rows_of(tile);
      }
    }
    (small ? sum.small_items : sum.large_items) = items;
    return sum;
  }

  // Writes the sequence's part of the lists from the places in `at`; last tiles, which see most
  // keys, first.
  __device__ void list(const PlanArgs& args, int sequence, bool split, SequenceWork at) const {
    WorkItem* items =
        small ? args.plan.small_items + at.small_items : args.plan.large_items + at.large_items;
    MergeItem* merges = args.plan.merges + at.merges;
    int partial = at.partial_rows;
    for (int tile = tiles - 1; tile >= 0; --tile) {
      const int2 range = splits(args, tile);
      const int count = range.y - range.x;
      if (!split || count == 1) {
        *items++ = {sequence, tile, range.x, range.y, -1, {}};
        continue;
      }
      const int rows = rows_of(tile);
      const int stride = args.kv_heads * rows;
      for (int i = 0; i < count; ++i) {
        *items++ = {sequence, tile, range.x + i, range.x + i + 1, partial + i * stride, {}};
      }
      for (int row = 0; row < rows; row += kMergeRows) {
        *merges++ = {sequence,
                     tile * tile_rows + row,
                     min(kMergeRows, rows - row),
                     rows,
                     count,
                     partial + row,
                     stride,
                     0};
      }
      partial += count * stride;
    }
  }
};

// Sum of `value` over the threads before this one; `total` over all of them.
__device__ int sum_before(int value, int* warp_sums, int& total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int other = 0; other < kPlanThreads / 32; ++other) {
    if (other < warp) before += warp_sums[other];
    total += warp_sums[other];
  }
  __syncthreads();
  return before + sum - value;
}

// A sequence is split if its longest tile is more than half of what a thread block gets if all
// blocks share the work, and partial results have room. The result's bits do not depend on it.
__global__ void __launch_bounds__(kPlanThreads) plan_kernel(const __grid_constant__ PlanArgs args) {
  __shared__ int warp_sums[kPlanThreads / 32];
  const int count = args.sequences.count;
  int small_blocks = 0, large_blocks = 0;
  for (int sequence = threadIdx.x; sequence < count; sequence += kPlanThreads) {
    const SequenceTiles tiles(args, sequence);
    int blocks = 0;
    for (int tile = 0; tile < tiles.tiles; ++tile) blocks += tiles.blocks(args, tile);
    (tiles.small ? small_blocks : large_blocks) += blocks;
  }
  int all_small = 0, all_large = 0;
  sum_before(small_blocks, warp_sums, all_small);
  sum_before(large_blocks, warp_sums, all_large);
  const int small_share = max(kSplitBlocks, all_small * args.kv_heads / args.small_slots / 2);
  const int large_share = max(kSplitBlocks, all_large * args.kv_heads / args.large_slots / 2);

  SequenceWork base;
  for (int first = 0; first < count; first += kPlanThreads) {
    const int sequence = first + threadIdx.x;
    const bool real = sequence < count && args.sequences.rows[sequence] > 0;
    bool split = false;
    SequenceWork work;
    if (real) {
      const SequenceTiles tiles(args, sequence);
      split = tiles.blocks(args, tiles.tiles - 1) > (tiles.small ? small_share : large_share);
      work = tiles.work(args, split);
    }
    int total = 0;
    int place = base.partial_rows + sum_before(work.partial_rows, warp_sums, total);
    base.partial_rows += total;
    if (split && place + work.partial_rows > args.plan.partial_rows) {
      split = false;
      work = SequenceTiles(args, sequence).work(args, false);
    }
    SequenceWork at;
    at.partial_rows = place;
    at.small_items = base.small_items + sum_before(work.small_items, warp_sums, total);
    base.small_items += total;
    at.large_items = base.large_items + sum_before(work.large_items, warp_sums, total);
    base.large_items += total;
    at.merges = base.merges + sum_before(work.merges, warp_sums, total);
    base.merges += total;
    if (real) SequenceTiles(args, sequence).list(args, sequence, split, at);
  }
  if (threadIdx.x == 0) {
    *args.plan.counters = {base.small_items, base.large_items, base.merges, 0, 0, 0, 0};
  }
}

}  // namespace

Plan plan_layout(const PlanShape& shape, std::byte* memory) {
  Plan plan{};
  const int query_rows = shape.rows * shape.heads;
  const int splits = (shape.max_keys + kSplitKeys - 1) / kSplitKeys;
  const long long most = static_cast<long long>(query_rows) * splits;
  plan.partial_rows = static_cast<int>(
      std::min<long long>(most, static_cast<long long>(shape.multiprocessors) * kPartialRowsPerSm));
  // Tiles that are not split, and splits, each of which has a partial row at least.
  plan.item_capacity = 2 * shape.sequences + query_rows / kSmallRows + plan.partial_rows;
  plan.merge_capacity = 2 * shape.sequences + query_rows / kMergeRows + 1;
  plan.counters = reinterpret_cast<PlanCounters*>(memory);
  std::size_t offset = 256;
  plan.small_items = reinterpret_cast<WorkItem*>(memory + offset);
  offset += plan.item_capacity * sizeof(WorkItem);
  plan.large_items = reinterpret_cast<WorkItem*>(memory + offset);
  offset += plan.item_capacity * sizeof(WorkItem);
  plan.merges = reinterpret_cast<MergeItem*>(memory + offset);
  return plan;
}

std::size_t plan_bytes(const PlanShape& shape) {
  const Plan plan = plan_layout(shape, nullptr);
  const std::size_t bytes =
      256 + 2 * plan.item_capacity * sizeof(WorkItem) + plan.merge_capacity * sizeof(MergeItem);
  return (bytes + 255) / 256 * 256;
}

Status launch_plan(const Launch& launch, const PlanArgs& args) {
  plan_kernel<<<1, kPlanThreads, 0, launch.stream>>>(args);
  return status_of(cudaGetLastError(), "the plan of attention");
}

}  // namespace quire::cuda
