#pragma once

#include <algorithm>

#include "attention/tile_policy.h"

namespace quire::cuda::hopper {

// Shared memory of a thread block that computes small tiles, in bytes from its 1024-byte aligned
// start: a ring of stages, each of the keys or the values of one block of 64, with their scales.
struct DecodeMemory {
  int stages;       // of the ring
  int stage_bytes;  // a multiple of 1024
  int scales;       // float [stages][64]
  int query;        // [rows][query_pitch]
  int query_pitch;
  int scores;  // float [2][rows][kScorePitch]
  int bounds;  // int2 [kDecodeTiles][rows]: keys seen
  int tiles;   // Tile [kDecodeTiles]
  int barriers;
  int last;  // int: see merge_if_last
  int total;
};

constexpr int kDecodeTiles = 4;  // that the producer may be ahead
constexpr int kTileBytes = 80;
constexpr int kSharedOfMultiprocessor = 233472;  // sm_90; 1024 bytes of it go to each thread block
constexpr int kSharedOfBlock = 232448;

// Where keys are widened, two thread blocks occupy the units that do it.
constexpr int decode_blocks_per_sm(int row_bytes, bool scaled) {
  return row_bytes <= 128 && !scaled ? 3 : row_bytes <= 256 ? 2 : 1;
}

// As many stages as there is room for, keys and values alike.
constexpr DecodeMemory decode_memory(int head_size, int element_bytes, bool scaled) {
  const int row_bytes = head_size * element_bytes;
  const int blocks = decode_blocks_per_sm(row_bytes, scaled);
  const int align = 1024;
  const int room = std::min(kSharedOfMultiprocessor / blocks - 1024, kSharedOfBlock) - align;
  DecodeMemory memory{};
  memory.stage_bytes = kKeyBlock * row_bytes;
  memory.query_pitch = padded_pitch(head_size * 2);
  const int scale_bytes = scaled ? kKeyBlock * 4 : 0;
  const int rest = kSmallRows * memory.query_pitch + 2 * kSmallRows * kScorePitch * 4 +
                   kDecodeTiles * (kSmallRows * 8 + kTileBytes + 16) + 16;
  memory.stages = (room - rest) / (memory.stage_bytes + scale_bytes + 16) / 2 * 2;
  memory.scales = memory.stages * memory.stage_bytes;
  memory.query = memory.scales + memory.stages * scale_bytes;
  memory.scores = memory.query + kSmallRows * memory.query_pitch;
  memory.bounds = memory.scores + 2 * kSmallRows * kScorePitch * 4;
  memory.tiles = memory.bounds + kDecodeTiles * kSmallRows * 8;
  memory.barriers = memory.tiles + kDecodeTiles * kTileBytes;
  memory.last = memory.barriers + (memory.stages + kDecodeTiles) * 16;
  memory.total = memory.last + 16 + align;
  return memory;
}

}  // namespace quire::cuda::hopper
