#pragma once

#include "attention/plan.h"
#include "attention/tile_policy.h"

namespace quire::cuda {

// The keys that sequences share, read once for all of them (as in a cascade: Ye et al. 2024). As
// each has one row, all their rows are the rows of tiles of kLargeRows, which see all its keys.
// Tiles are cut anywhere between blocks; each cut leaves a partial result for each row, which the
// tile of the sequence's own keys begins with.
struct PrefixTiles {
  SharedPrefix prefix;
  int group = 0, kv_heads = 0;
  int tile_sequences = 1;  // of a whole tile
  int tiles = 0;           // 0: there is no prefix
  int blocks = 0;          // of PlanArgs::prefix_block keys
  int cuts = 0, cut_keys = 0;

  // By all threads of a warp alike.
  __device__ explicit PrefixTiles(const PlanArgs& args)
      : group(args.group), kv_heads(args.kv_heads) {
    if (args.prefix == nullptr) return;
    prefix = *args.prefix;
    if (prefix.sequences == 0) return;
    tile_sequences = kLargeRows / group;
    tiles = (prefix.sequences + tile_sequences - 1) / tile_sequences;
    blocks = (prefix.keys + args.prefix_block - 1) / args.prefix_block;
    choose_cuts(args);
  }

  __device__ bool covers(int sequence) const {
    return sequence >= prefix.first && sequence < prefix.first + prefix.sequences;
  }
  __device__ int keys_of(int sequence) const { return covers(sequence) ? prefix.keys : 0; }

  __device__ int items() const { return tiles * cuts; }
  // Each sequence has as many rows of partial results for one cut.
  __device__ int partial_rows() const { return cuts * prefix.sequences * group * kv_heads; }

  __device__ WorkItem item(const SequenceTable& sequences, int index) const {
    const int tile = index / cuts, cut = index % cuts;
    WorkItem item;
    item.pass_row = sequences.first_row[prefix.first];
    item.first_position = prefix.keys;
    item.first_page = sequences.first_page[prefix.first];
    item.first = tile * tile_sequences * group;
    item.rows = rows_of(tile);
    item.first_key = cut * cut_keys;
    item.end_key = min(prefix.keys, item.first_key + cut_keys);
    item.partial = first_partial(tile) + cut * kv_heads * item.rows;
    item.merge = 0;
    return item;
  }

  // The same item as an entry of a list for all key-value heads.
  __device__ hopper::TileEntry entry(const SequenceTable& sequences, int index) const {
    const WorkItem item = this->item(sequences, index);
    return {item.pass_row + item.first / group,
            item.rows,
            item.first_key,
            item.end_key,
            item.first_page,
            0,
            item.partial,
            0};
  }

  // What the rows of a sequence from `row` on find here.
  __device__ PrefixPart part(int sequence, int row) const {
    PrefixPart part;
    if (!covers(sequence)) return part;
    const int tile = (sequence - prefix.first) / tile_sequences;
    part.first = first_partial(tile) + (sequence - prefix.first) % tile_sequences * group + row;
    part.rows = rows_of(tile);
    part.splits = cuts;
    return part;
  }

 private:
  __device__ int rows_of(int tile) const {
    return min(tile_sequences, prefix.sequences - tile * tile_sequences) * group;
  }
  __device__ int first_partial(int tile) const {
    return tile * tile_sequences * group * kv_heads * cuts;
  }

  // The number of cuts for which rounds over the thread blocks and merging take least, in 64ths of
  // a block; a candidate for each lane.
  __device__ void choose_cuts(const PlanArgs& args) {
    constexpr int kItemBlocks = 1;  // what the start of an item costs
    constexpr int kMergedRowsOf64th = 64;
    const int lane = threadIdx.x % 32;
    const int rows = prefix.sequences * group * kv_heads;
    const int length = (blocks + lane) / (lane + 1);
    const int count = (blocks + length - 1) / length;
    const int rounds = (tiles * kv_heads * count + args.prefix_slots - 1) / args.prefix_slots;
    int time = rounds * (length + kItemBlocks) * 64 + count * (rows / kMergedRowsOf64th);
    const bool listed =
        args.prefix_tiles.entries == nullptr || count * tiles <= args.prefix_tiles.capacity;
    if (count > 1 && (!listed || count * rows > args.plan.partial_rows)) time = 0x7fffffff;
    const int least = __reduce_min_sync(0xffffffffu, time);
    const int best = __ffs(__ballot_sync(0xffffffffu, time == least)) - 1;
    cuts = __shfl_sync(0xffffffffu, count, best);
    cut_keys = __shfl_sync(0xffffffffu, length, best) * args.prefix_block;
  }
};

}  // namespace quire::cuda
