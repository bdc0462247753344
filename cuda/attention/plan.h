#pragma once

#include <cstddef>

#include <vector_types.h>

#include "attention/kv_view.h"
#include "base/launch.h"

namespace quire::cuda {

// The work of a call as lists in device memory, made by one thread block. An item is a tile and a
// range of its splits, done once for each key-value head.
struct WorkItem {
  int sequence;
  int tile;
  int first_split, end_split;  // the tile's splits outside its keys do not exist
  int partial;                 // first row of the partial result; -1: the item writes the output
  int unused[3];
};

// Up to 16 rows of a tile whose splits are partial results, to be merged. Split i of head h, row r
// is partial row first_partial + i * stride + h * tile_rows + r.
struct MergeItem {
  int sequence;
  int first_row;  // of the sequence's tokens x group
  int rows;
  int tile_rows;
  int splits;
  int first_partial;
  int stride;
  int unused;
};

struct PlanCounters {
  int small_items, large_items, merges;
  // The next item to be taken and the thread blocks that found none left; the last of these sets
  // both to 0 for the next launch.
  int small_next, small_done, large_next, large_done;
};

struct Plan {
  PlanCounters* counters;
  WorkItem* small_items;
  WorkItem* large_items;
  MergeItem* merges;
  int item_capacity;  // of either list of items
  int merge_capacity;
  int partial_rows;  // capacity
};

// Limits of a plan; what the capacities come from.
struct PlanShape {
  int rows, sequences, heads, max_keys, multiprocessors;
};
Plan plan_layout(const PlanShape& shape, std::byte* memory);
std::size_t plan_bytes(const PlanShape& shape);

struct PlanArgs {
  SequenceTable sequences;
  int kv_heads, group, window;
  int small_limit;               // rows of a sequence up to which its tiles are small
  int small_slots, large_slots;  // thread blocks that run at once
  Plan plan;
};
Status launch_plan(const Launch& launch, const PlanArgs& args);

}  // namespace quire::cuda
