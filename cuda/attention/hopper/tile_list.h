#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kv_view.h"
#include "base/launch.h"

namespace quire::cuda::hopper {

// Rows of one sequence that are computed together, for one query head at a time. Holds all that a
// thread block needs to know of them.
struct TileEntry {
  int first_row;  // of the pass
  int rows;
  int first_position;  // of the first row
  int keys;            // of the sequence
  int first_page;      // of the sequence, in SequenceTable::pages
  int first_head;      // of the query heads that the entry is for
  int first_partial;   // of a prefix: the first row's partial result, see WorkItem
  int unused;
};
static_assert(sizeof(TileEntry) == 32);

// The next tile to be taken and the thread blocks that found none left; the last of these sets both
// to 0 for the next launch.
struct TileCounters {
  int entries, next, done;
};

// The tiles of a call, in the order in which they are taken: section by section, where the keys and
// values of a section fit the L2 cache; inside it those with most keys first, so that the last to
// be taken are short. A tile is an entry and one of its `heads_per_entry` query heads.
struct TileList {
  TileCounters* counters;
  TileEntry* entries;
  int capacity;
};

struct TileListShape {
  int rows, sequences, tile_rows, kv_heads;
};
TileList tile_list_layout(const TileListShape& shape, std::byte* memory);
std::size_t tile_list_bytes(const TileListShape& shape);

struct TileListArgs {
  SequenceTable sequences;
  int tile_rows;
  int group, kv_heads;
  int section_heads;  // key-value heads of a section, a divisor of kv_heads
  int section_keys;   // keys of a section
  int block_keys;
  int window;
  bool causal;
  int least_rows;  // sequences with fewer are left out
  TileList list;
};
// Key-value heads whose keys and values are read at a time: all if they fit the cache.
int section_heads(int kv_heads, int max_keys, int bytes_per_key_and_head);
constexpr std::size_t kSectionBytes = std::size_t{32} << 20;

Status launch_tile_list(const Launch& launch, const TileListArgs& args);

}  // namespace quire::cuda::hopper
