#pragma once

#include <cstddef>

#include <vector_types.h>

#include "attention/hopper/tile_list.h"
#include "attention/kv_view.h"
#include "base/launch.h"

namespace quire::cuda {

// Partial results of a tile's rows over keys that its sequence shares with others: of split i, head
// h, row r of the tile it is partial row first + (i * kv_heads + h) * rows + r.
struct PrefixPart {
  int first = 0, rows = 0;
  int splits = 0;  // 0: nothing is shared
};

// The work of a call as lists in device memory, made by one thread block. An item is a tile and a
// run of its splits, done once for each key-value head. It holds what its thread block needs, so
// that nothing else is waited for before the pages.
struct alignas(16) WorkItem {
  int pass_row;            // row of the pass of the sequence's first token
  int first_position;      // of that token
  int first_page;          // of the sequence, in the page tables
  int first, rows;         // of the sequence's tokens x group
  int first_key, end_key;  // of its splits
  // First row of the partial results; those of its i-th split of head h follow at i * kv_heads *
  // rows + h * rows, where splits are fixed; else it has one. -1: the item has all splits and
  // writes the output.
  int partial;
  int merge;  // of small tiles: index of the tile's merge
  // Of small tiles: what an item that writes the output begins with.
  PrefixPart prefix;
};

// Up to 16 rows of a tile whose splits are partial results, to be merged. Split i of head h, row r
// is partial row first_partial + i * stride + h * tile_rows + r. Those of a prefix come before
// them.
struct alignas(16) MergeItem {
  int pass_row;
  int first;  // of the sequence's tokens x group
  int rows;
  int tile_rows;
  int splits;
  int first_partial;
  int stride;
  int items;  // that make the splits
  PrefixPart prefix;
};

struct PlanCounters {
  int small_items, large_items, small_merges, large_merges;
  // Items taken beyond the first of each thread block, and thread blocks that found none left; the
  // last of these sets both to 0 for the next launch.
  int small_next, small_done, large_next, large_done;
};

struct Plan {
  PlanCounters* counters;
  WorkItem* small_items;
  WorkItem* large_items;
  // Small tiles are merged by the item that ends last, large ones by a kernel of their own.
  MergeItem* small_merges;
  MergeItem* large_merges;
  int* ended;          // [small merge][kv_heads]: items that have ended; 0 between kernels
  int item_capacity;   // of either list of items
  int merge_capacity;  // of either list of merges
  int partial_rows;    // capacity
};

// Limits of a plan; what the capacities come from.
struct PlanShape {
  int rows, sequences, heads, kv_heads, max_keys, multiprocessors;
};
Plan plan_layout(const PlanShape& shape, std::byte* memory);
std::size_t plan_bytes(const PlanShape& shape);

struct PlanArgs {
  SequenceTable sequences;
  int kv_heads, group, window;
  int small_limit;               // rows of a sequence up to which its tiles are small
  int most_tokens;               // of a sequence; those with more are left out
  int small_slots, large_slots;  // thread blocks that run at once
  int item_blocks;               // what the start of a small item costs, in key blocks
  // Whether each split of a tile has a partial result of its own, wherever the tile is cut; else
  // small tiles are cut anywhere, and an item has one.
  bool fixed_splits;
  // Keys that are read once for all sequences that share them; null: none. Only without fixed
  // splits and window, and if a sequence's row is small.
  const SharedPrefix* prefix;
  // Their tiles are cut into whole numbers of so many keys, and done by so many thread blocks.
  int prefix_block, prefix_slots;
  hopper::TileList prefix_tiles;  // where they are listed; entries null: as large items
  Plan plan;
};
Status launch_plan(const Launch& launch, const PlanArgs& args);

}  // namespace quire::cuda
