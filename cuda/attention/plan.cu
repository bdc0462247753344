#include "attention/plan.h"

#include <algorithm>

#include "attention/sequence_tiles.cuh"
#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kPlanThreads = 1024;

// A row of partial results is worth its memory only as long as splitting brings work for idle
// multiprocessors: so many rows for each of them.
constexpr int kPartialRowsPerSm = 512;

// Splits or cuts of an item of small tiles: the candidates among which a plan chooses.
constexpr int kRuns = 14;
__constant__ const int kRunSplits[kRuns] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
// What the merge of a cut tile costs, in key blocks of an item.
constexpr int kMergeBlocks = 2;

// Sums of `value` over the threads before this one; `total` over all of them.
__device__ int4 sum_before(int4 value, int4* warp_sums, int4& total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int4 sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int4 other = {
        __shfl_up_sync(0xffffffffu, sum.x, distance), __shfl_up_sync(0xffffffffu, sum.y, distance),
        __shfl_up_sync(0xffffffffu, sum.z, distance), __shfl_up_sync(0xffffffffu, sum.w, distance)};
    if (lane >= distance)
      sum = {sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w};
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int4 before = {sum.x - value.x, sum.y - value.y, sum.z - value.z, sum.w - value.w};
  total = {0, 0, 0, 0};
  for (int i = 0; i < kPlanThreads / 32; ++i) {
    const int4 other = warp_sums[i];
    total = {total.x + other.x, total.y + other.y, total.z + other.z, total.w + other.w};
    if (i < warp) {
      before = {before.x + other.x, before.y + other.y, before.z + other.z, before.w + other.w};
    }
  }
  __syncthreads();
  return before;
}

// What all sequences come to.
struct Totals {
  int large_blocks;
  int items[kRuns];    // of small tiles with each length of run
  int longest[kRuns];  // of these items, in blocks
};

__device__ void add_sequence(const PlanArgs& args, const PrefixTiles& prefix, int sequence,
                             Totals& sum) {
  const SequenceTiles tiles(args, prefix, sequence);
  if (tiles.tiles == 0) return;
  if (!tiles.small) {
    for (int tile = 0; tile < tiles.tiles; ++tile) sum.large_blocks += tiles.blocks(args, tile);
    return;
  }
  const int2 range = tiles.splits(args, tiles.tiles - 1);
  const int blocks = tiles.blocks(args, tiles.tiles - 1);
  const int split_blocks = tiles.split_keys / kKeyBlock;
  for (int i = 0; i < kRuns; ++i) {
    sum.items[i] += (range.y - range.x + kRunSplits[i] - 1) / kRunSplits[i] * tiles.tiles;
    sum.longest[i] = max(sum.longest[i], min(blocks, kRunSplits[i] * split_blocks));
  }
}

// The run of small items for which rounds over the thread blocks take least; the longest of equals.
__device__ int best_small_run(const PlanArgs& args, const Totals& totals) {
  int best = 0, least = 0x7fffffff;
  for (int i = 0; i < kRuns; ++i) {
    const int rounds = (totals.items[i] * args.kv_heads + args.small_slots - 1) / args.small_slots;
    const bool cut = totals.items[i] != totals.items[kRuns - 1];
    const int time = rounds * (totals.longest[i] + args.item_blocks) + (cut ? kMergeBlocks : 0);
    if (time <= least) {
      least = time;
      best = kRunSplits[i];
    }
  }
  return best;
}

// Lists the tiles of a prefix, before all others.
__device__ void list_prefix(const PlanArgs& args, const PrefixTiles& prefix, SequenceWork& base) {
  hopper::TileEntry* const entries = args.prefix_tiles.entries;
  if (entries == nullptr) base.large_items = prefix.items();
  if (entries != nullptr && threadIdx.x == 0) {
    *args.prefix_tiles.counters = {prefix.items(), 0, 0};
  }
  for (int i = threadIdx.x; i < prefix.items(); i += kPlanThreads) {
    if (entries == nullptr) {
      args.plan.large_items[i] = prefix.item(args.sequences, i);
    } else {
      entries[i] = prefix.entry(args.sequences, i);
    }
  }
}

// Where splits are fixed, how far tiles are cut does not change the result's bits. Items of large
// tiles are about half of what a thread block gets if all share the work.
__global__ void __launch_bounds__(kPlanThreads) plan_kernel(const __grid_constant__ PlanArgs args) {
  __shared__ int4 warp_sums[kPlanThreads / 32];
  __shared__ Totals totals;
  if (threadIdx.x < sizeof(Totals) / 4) reinterpret_cast<int*>(&totals)[threadIdx.x] = 0;
  wait_for_previous_kernel();
  const PrefixTiles prefix(args);
  __syncthreads();
  const int count = args.sequences.count;
  if (threadIdx.x / 32 * 32 < count) {
    Totals mine{};
    for (int sequence = threadIdx.x; sequence < count; sequence += kPlanThreads) {
      add_sequence(args, prefix, sequence, mine);
    }
    const int blocks = __reduce_add_sync(0xffffffffu, mine.large_blocks);
    if (threadIdx.x % 32 == 0) atomicAdd(&totals.large_blocks, blocks);
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int items = __reduce_add_sync(0xffffffffu, mine.items[i]);
      const int longest = __reduce_max_sync(0xffffffffu, mine.longest[i]);
      if (threadIdx.x % 32 == 0) {
        atomicAdd(&totals.items[i], items);
        atomicMax(&totals.longest[i], longest);
      }
    }
  }
  __syncthreads();
  const int small_run = best_small_run(args, totals);
  const int large_run =
      max(1, totals.large_blocks * args.kv_heads / args.large_slots / 2 / kSplitBlocks);

  SequenceWork base;
  base.partial_rows = prefix.partial_rows();
  list_prefix(args, prefix, base);
  for (int first = 0; first < count; first += kPlanThreads) {
    const int sequence = first + threadIdx.x;
    const bool real = sequence < count && planned_tokens(args, sequence) > 0;
    int run = 0;
    SequenceWork work;
    if (real) {
      const SequenceTiles tiles(args, prefix, sequence);
      run = tiles.small ? small_run : large_run;
      work = tiles.work(args, run);
    }
    int4 total;
    SequenceWork at;
    at.partial_rows =
        base.partial_rows + sum_before({work.partial_rows, 0, 0, 0}, warp_sums, total).x;
    base.partial_rows += total.x;
    if (run > 0 && at.partial_rows + work.partial_rows > args.plan.partial_rows) {
      run = 0;
      work = SequenceTiles(args, prefix, sequence).work(args, 0);
    }
    const int4 before =
        sum_before({work.small_items, work.large_items, work.small_merges, work.large_merges},
                   warp_sums, total);
    at.small_items = base.small_items + before.x;
    at.large_items = base.large_items + before.y;
    at.small_merges = base.small_merges + before.z;
    at.large_merges = base.large_merges + before.w;
    base.small_items += total.x;
    base.large_items += total.y;
    base.small_merges += total.z;
    base.large_merges += total.w;
    if (real) SequenceTiles(args, prefix, sequence).list(args, prefix, sequence, run, at);
  }
  for (int i = threadIdx.x; i < base.small_merges * args.kv_heads; i += kPlanThreads) {
    args.plan.ended[i] = 0;
  }
  if (threadIdx.x == 0) {
    *args.plan.counters = {
        base.small_items, base.large_items, base.small_merges, base.large_merges, 0, 0, 0, 0};
  }
}

}  // namespace

Plan plan_layout(const PlanShape& shape, std::byte* memory) {
  Plan plan{};
  const int query_rows = shape.rows * shape.heads;
  const int splits = (shape.max_keys + kCutKeys - 1) / kCutKeys;
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
  plan.small_merges = reinterpret_cast<MergeItem*>(memory + offset);
  offset += plan.merge_capacity * sizeof(MergeItem);
  plan.large_merges = reinterpret_cast<MergeItem*>(memory + offset);
  offset += plan.merge_capacity * sizeof(MergeItem);
  plan.ended = reinterpret_cast<int*>(memory + offset);
  return plan;
}

std::size_t plan_bytes(const PlanShape& shape) {
  const Plan plan = plan_layout(shape, nullptr);
  const std::size_t bytes =
      256 + 2 * plan.item_capacity * sizeof(WorkItem) +
      plan.merge_capacity * (2 * sizeof(MergeItem) + shape.kv_heads * sizeof(int));
  return (bytes + 255) / 256 * 256;
}

Status launch_plan(const Launch& launch, const PlanArgs& args) {
  return launch_dependent(launch, reinterpret_cast<const void*>(plan_kernel),
                          "the plan of attention", {dim3(1), dim3(kPlanThreads)}, args);
}

}  // namespace quire::cuda
