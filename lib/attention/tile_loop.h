#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/softmax_state.h"

namespace quire::attention {

// Keys of one step of the online softmax, counted from the start of the sequence. Every row goes
// through these blocks in order, so its bits do not depend on pages, chunks or other rows.
constexpr int kKeyBlock = 64;
// Each stretch of this many keys has a softmax of its own, and the stretches are merged in order,
// whether one thread computes them or several.
constexpr int kSplitKeys = 1024;
// Query rows (tokens x heads of a group) that share a converted key block.
constexpr int kTileRows = 48;
// Rows up to which converting a block for its own sake costs more than it saves.
constexpr int kDirectRows = 6;

// Keys [first, last) that a row sees; counted from the start of the sequence, or of a block.
struct KeyRange {
  int first = 0;
  int last = 0;
};

// Per-row work of a tile on one key block, in one instruction set. `width` is the head size rounded
// up to 16; rows of queries, values and outputs are that far apart.
struct TileKernels {
  // scores[row][key] = queries[row] . key, for keys of vectors [first, last) of 16.
  void (*scores)(const float* queries, int rows, int head_size, int width, const float* keys,
                 int first, int last, float* scores);
  // One step of the online softmax: soft cap, mask, new maximum; scores become exp(score - maximum)
  // and rescale[row] what the row's sum of values so far is multiplied with.
  void (*softmax)(float* scores, int rows, const KeyRange* ranges, int first, int last,
                  float soft_cap, SoftmaxState* states, float* rescale);
  // output[row] = rescale[row] * output[row] + sum of scores[row][key] * values[key] over keys
  // [first, last).
  void (*accumulate)(const float* scores, int rows, const float* rescale, const float* values,
                     int width, int first, int last, float* output);
  // to = left * to + right * from
  void (*blend)(const float* from, float left, float right, int width, float* to);
};

// Gives the keys and values of a block as float32, or multiplies them where they are.
struct BlockSource {
  // Fills keys [head_size][kKeyBlock] at least for the wanted keys, and rows wanted.first to
  // wanted.last of values [kKeyBlock][width], padded with zeros. Reads no other token's values and
  // no page without a wanted key.
  void (*load)(const void* context, int block, KeyRange wanted, float* keys,
               float* values) = nullptr;
  // TileKernels::scores and accumulate straight from the pages: what a tile of at most
  // `direct_rows` rows uses instead of `load`. Where both are used they give the same bits.
  void (*scores)(const void* context, int block, KeyRange wanted, const float* queries, int rows,
                 float* scores) = nullptr;
  void (*accumulate)(const void* context, int block, KeyRange wanted, const float* scores, int rows,
                     const float* rescale, float* output) = nullptr;
  int direct_rows = 0;  // 0: `scores` and `accumulate` are null; kTileRows: `load` is
  const void* context = nullptr;
};

// A tile: query rows of one sequence and one key-value head.
struct Tile {
  int rows = 0;  // 1 ... kTileRows
  int head_size = 0;
  int width = 0;
  const float* queries = nullptr;    // [rows][width], multiplied with the scale
  const KeyRange* ranges = nullptr;  // [rows] keys seen; none is empty
  float soft_cap = 0;
  BlockSource source;
};

// Memory of one thread.
struct TileScratch {
  float* keys = nullptr;     // [head_size][kKeyBlock]
  float* values = nullptr;   // [kKeyBlock][width]
  float* scores = nullptr;   // [kTileRows][kKeyBlock]
  float* partial = nullptr;  // [kTileRows][width]
};

// Union of the rows' ranges.
KeyRange covered(const Tile& tile);
// Splits [first, last) of kSplitKeys that the tile's rows touch.
KeyRange covered_splits(const Tile& tile);

// The softmax of the keys of one split: output [rows][width] and states [rows] are overwritten.
void attend_split(const TileKernels& kernels, const Tile& tile, int split,
                  const TileScratch& scratch, SoftmaxState* states, float* output);
// All splits, merged in order.
void attend(const TileKernels& kernels, const Tile& tile, const TileScratch& scratch,
            SoftmaxState* states, float* output);
// Folds one row's later split into the row.
void merge_row(const TileKernels& kernels, const SoftmaxState& other, const float* from, int width,
               SoftmaxState& state, float* to);

}  // namespace quire::attention
