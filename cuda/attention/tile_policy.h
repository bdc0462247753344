#pragma once

#include <quire/engine_options.h>

#include "attention/tile_loop.h"

namespace quire::cuda {

// Keys of one step of the online softmax, counted from the start of the sequence.
using attention::kKeyBlock;
// A split: each stretch of this many keys has a softmax of its own and the stretches are merged in
// order, whether one thread block computes them or several. So a row's bits do not depend on how
// the work of a pass is cut. Where bits need not be kept, small tiles are cut finer.
constexpr int kSplitKeys = 512;
constexpr int kSplitBlocks = kSplitKeys / kKeyBlock;

// A tile: query rows of one sequence and one key-value head; row m of a sequence's tiles is token
// m / group, head m % group of the group.
// Small tiles share the keys of a block, then the dimensions of the output, among four warps: few
// rows, many bytes. In large tiles each warp has its own rows.
constexpr int kSmallRows = 16;
constexpr int kSmallWarps = 4;
constexpr int kLargeRows = 128;
// Rows of a sequence (tokens x group) up to which it is cut into small tiles.
constexpr int kSmallTileLimit = 2 * kSmallRows;

// Heads are computed as the next of these widths, their dimensions past the head's as zeros; so a
// kernel serves several sizes of heads.
constexpr int kTileWidths[] = {32, 64, 96, 128, 256};

// 0: none is as wide.
constexpr int tile_width(int head_size) {
  for (const int width : kTileWidths) {
    if (head_size <= width) return width;
  }
  return 0;
}

struct TilePolicy {
  int warps;
  int stages;         // key blocks in shared memory
  int blocks_per_sm;  // thread blocks that fit a multiprocessor of sm_90
  int row_tiles;      // of 16 rows, of one warp
};

constexpr TilePolicy large_policy(int width) {
  if (width <= 128) return {4, 2, 2, 2};
  return {8, 2, 1, 1};
}

constexpr TilePolicy small_policy(int width, int element_bytes) {
  const int row_bytes = width * element_bytes;
  if (row_bytes <= 128) return {kSmallWarps, 4, 3, 1};
  if (row_bytes <= 256) return {kSmallWarps, 3, 2, 1};
  return {kSmallWarps, 3, 1, 1};
}

// Shared memory of a tile of `rows`, in bytes from its start. Rows are an odd number of 16 bytes
// apart, so that eight of them fall into different banks.
constexpr int padded_pitch(int bytes) {
  return ((bytes + 15) / 16 | 1) * 16;
}

struct TileMemory {
  int query_pitch, key_pitch;
  int slot;     // bytes of 64 keys, or values
  int stage;    // keys, values, and the scales of both
  int query;    // [rows][query_pitch]
  int stages;   // [stages][stage]
  int scores;   // float [rows][kScorePitch], in small tiles
  int bounds;   // int2 [rows]: keys seen
  int carried;  // SoftmaxState [rows]
  int pages;    // pointers to pages: [kPageBlocks][kKeyBlock / 8]
  int queue;    // SharedQueue
  int total;
};

constexpr int kScorePitch = kKeyBlock + 8;
constexpr int kQueueBytes = 160;
constexpr int kPageBlocks = 8;  // a power of two above the number of stages

constexpr TileMemory tile_memory(int rows, int width, int element_bytes, int stages, bool scaled,
                                 bool scores) {
  TileMemory memory{};
  memory.query_pitch = padded_pitch(width * 2);
  memory.key_pitch = padded_pitch(width * element_bytes);
  memory.slot = kKeyBlock * memory.key_pitch;
  memory.stage = 2 * memory.slot + (scaled ? 2 * kKeyBlock * 4 : 0);
  memory.query = 0;
  memory.stages = rows * memory.query_pitch;
  memory.scores = memory.stages + stages * memory.stage;
  memory.bounds = memory.scores + (scores ? rows * kScorePitch * 4 : 0);
  memory.carried = memory.bounds + rows * 8;
  memory.pages = memory.carried + rows * 8;
  memory.queue = memory.pages + kPageBlocks * (kKeyBlock / 8) * 8;
  memory.total = memory.queue + kQueueBytes;
  return memory;
}

}  // namespace quire::cuda
