#pragma once

#include "attention/prefix_tiles.cuh"

namespace quire::cuda {

constexpr int kMergeRows = 16;

// Keys of a cut of a small tile, where splits are not fixed.
constexpr int kCutKeys = 2 * kKeyBlock;

// What a sequence adds to the lists.
struct SequenceWork {
  int small_items = 0, large_items = 0, small_merges = 0, large_merges = 0, partial_rows = 0;
};

__device__ inline int planned_tokens(const PlanArgs& args, int sequence) {
  const int tokens = args.sequences.rows[sequence];
  return tokens > args.most_tokens ? 0 : tokens;
}

// The tiles of a sequence.
struct SequenceTiles {
  int rows = 0;  // tokens x group
  int tile_rows = 0, tiles = 0;
  int first_position = 0;
  int prefix_keys = 0;  // seen by other tiles, whose results are added
  int split_keys = kSplitKeys;
  bool small = false;
  bool part_of_item = false;  // an item has one partial result, else each of its splits has

  __device__ SequenceTiles(const PlanArgs& args, const PrefixTiles& prefix, int sequence) {
    const int tokens = planned_tokens(args, sequence);
    first_position = args.sequences.first_position[sequence];
    prefix_keys = prefix.keys_of(sequence);
    rows = tokens * args.group;
    small = rows <= args.small_limit;
    tile_rows = small ? kSmallRows : kLargeRows;
    tiles = (rows + tile_rows - 1) / tile_rows;
    part_of_item = !args.fixed_splits;
    if (small && part_of_item) split_keys = kCutKeys;
  }

  __device__ int rows_of(int tile) const { return min(tile_rows, rows - tile * tile_rows); }
  // Keys that any row of a tile sees here.
  __device__ int2 keys(const PlanArgs& args, int tile) const {
    const int first_end = first_position + tile * tile_rows / args.group + 1;
    const int end = first_position + (tile * tile_rows + rows_of(tile) - 1) / args.group + 1;
    return make_int2(args.window > 0 ? max(0, first_end - args.window) : prefix_keys, end);
  }
  __device__ int blocks(const PlanArgs& args, int tile) const {
    const int2 seen = keys(args, tile);
    return (seen.y + kKeyBlock - 1) / kKeyBlock - seen.x / kKeyBlock;
  }
  // Splits with keys of a tile.
  __device__ int2 splits(const PlanArgs& args, int tile) const {
    const int2 seen = keys(args, tile);
    return make_int2(seen.x / split_keys, (seen.y + split_keys - 1) / split_keys);
  }
  // Partial results of a tile of `count` splits in items of `run`.
  __device__ int partials(int count, int run) const {
    return part_of_item ? (count + run - 1) / run : count;
  }

  // With items of `run` splits; 0: of all.
  __device__ SequenceWork work(const PlanArgs& args, int run) const {
    SequenceWork sum;
    int items = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const int2 range = splits(args, tile);
      const int count = range.y - range.x;
      const int length = run > 0 ? run : count;
      items += (count + length - 1) / length;
      if (count <= length) continue;
      (small ? sum.small_merges : sum.large_merges) +=
          (rows_of(tile) + kMergeRows - 1) / kMergeRows;
      sum.partial_rows += partials(count, length) * args.kv_heads * rows_of(tile);
    }
    (small ? sum.small_items : sum.large_items) = items;
    return sum;
  }

  // Writes the sequence's part of the lists from the places in `at`; last tiles, which see most
  // keys, first.
  __device__ void list(const PlanArgs& args, const PrefixTiles& prefix, int sequence, int run,
                       SequenceWork at) const {
    WorkItem* items =
        small ? args.plan.small_items + at.small_items : args.plan.large_items + at.large_items;
    int merge = small ? at.small_merges : at.large_merges;
    MergeItem* merges = small ? args.plan.small_merges : args.plan.large_merges;
    int partial = at.partial_rows;
    WorkItem item;
    item.pass_row = args.sequences.first_row[sequence];
    item.first_position = first_position;
    item.first_page = args.sequences.first_page[sequence];
    for (int tile = tiles - 1; tile >= 0; --tile) {
      const int2 range = splits(args, tile);
      const int count = range.y - range.x;
      item.first = tile * tile_rows;
      item.rows = rows_of(tile);
      item.first_key = range.x * split_keys;
      item.end_key = range.y * split_keys;
      item.partial = -1;
      item.merge = merge;
      const int length = run > 0 ? run : count;
      item.prefix = {};
      if (count <= length) {
        item.first_key = max(prefix_keys, item.first_key);
        item.prefix = prefix.part(sequence, item.first);
        *items++ = item;
        continue;
      }
      const int stride = args.kv_heads * item.rows;
      for (int i = 0; i < count; i += length) {
        item.first_key = max(prefix_keys, (range.x + i) * split_keys);
        item.end_key = min(range.y, range.x + i + length) * split_keys;
        item.partial = partial + (part_of_item ? i / length : i) * stride;
        *items++ = item;
      }
      const int count_of_partials = partials(count, length);
      for (int row = 0; row < item.rows; row += kMergeRows) {
        MergeItem entry{item.pass_row,
                        item.first + row,
                        min(kMergeRows, item.rows - row),
                        item.rows,
                        count_of_partials,
                        partial + row,
                        stride,
                        (count + length - 1) / length};
        entry.prefix = prefix.part(sequence, entry.first);
        merges[merge++] = entry;
      }
      partial += count_of_partials * stride;
    }
  }
};

}  // namespace quire::cuda
