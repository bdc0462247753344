#include "attention/tile_loop.h"

#include <algorithm>
#include <cstring>

namespace quire::attention {
namespace {

constexpr int kVector = 16;

KeyRange intersect(KeyRange a, KeyRange b) {
  const int first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.last, b.last))};
}

// One step of the online softmax of all rows; `ranges` count from the start of the block.
void attend_block(const TileKernels& kernels, const Tile& tile, int block, KeyRange wanted,
                  const KeyRange* ranges, const TileScratch& scratch, SoftmaxState* states,
                  float* output) {
  float rescale[kTileRows];
  const BlockSource& source = tile.source;
  const bool direct = tile.rows <= source.direct_rows;
  const int first = wanted.first / kVector;
  const int last = (wanted.last + kVector - 1) / kVector;
  if (direct) {
    source.scores(source.context, block, wanted, tile.queries, tile.rows, scratch.scores);
  } else {
    source.load(source.context, block, wanted, scratch.keys, scratch.values);
    kernels.scores(tile.queries, tile.rows, tile.head_size, tile.width, scratch.keys, first, last,
                   scratch.scores);
  }
  kernels.softmax(scratch.scores, tile.rows, ranges, first, last, tile.soft_cap, states, rescale);
  if (direct) {
    source.accumulate(source.context, block, wanted, scratch.scores, tile.rows, rescale, output);
  } else {
    kernels.accumulate(scratch.scores, tile.rows, rescale, scratch.values, tile.width, wanted.first,
                       wanted.last, output);
  }
}

}  // namespace

KeyRange covered(const Tile& tile) {
  KeyRange all = tile.ranges[0];
  for (int row = 1; row < tile.rows; ++row) {
    all.first = std::min(all.first, tile.ranges[row].first);
    all.last = std::max(all.last, tile.ranges[row].last);
  }
  return all;
}

KeyRange covered_splits(const Tile& tile) {
  const KeyRange keys = covered(tile);
  return {keys.first / kSplitKeys, (keys.last - 1) / kSplitKeys + 1};
}

void attend_split(const TileKernels& kernels, const Tile& tile, int split,
                  const TileScratch& scratch, SoftmaxState* states, float* output) {
  std::fill_n(states, tile.rows, SoftmaxState{});
  std::memset(output, 0, sizeof(float) * static_cast<std::size_t>(tile.rows) * tile.width);
  const KeyRange keys = intersect(covered(tile), {split * kSplitKeys, (split + 1) * kSplitKeys});
  KeyRange ranges[kTileRows];
  for (int block = keys.first / kKeyBlock; block * kKeyBlock < keys.last; ++block) {
    const int start = block * kKeyBlock;
    const KeyRange wanted{std::max(keys.first - start, 0), std::min(keys.last - start, kKeyBlock)};
    for (int row = 0; row < tile.rows; ++row) {
      const KeyRange seen{tile.ranges[row].first - start, tile.ranges[row].last - start};
      ranges[row] = intersect(seen, {0, kKeyBlock});
    }
    attend_block(kernels, tile, block, wanted, ranges, scratch, states, output);
  }
}

void attend(const TileKernels& kernels, const Tile& tile, const TileScratch& scratch,
            SoftmaxState* states, float* output) {
  const KeyRange splits = covered_splits(tile);
  attend_split(kernels, tile, splits.first, scratch, states, output);
  SoftmaxState later[kTileRows];
  for (int split = splits.first + 1; split < splits.last; ++split) {
    attend_split(kernels, tile, split, scratch, later, scratch.partial);
    for (int row = 0; row < tile.rows; ++row) {
      const std::size_t offset = static_cast<std::size_t>(row) * tile.width;
      merge_row(kernels, later[row], scratch.partial + offset, tile.width, states[row],
                output + offset);
    }
  }
}

void merge_row(const TileKernels& kernels, const SoftmaxState& other, const float* from, int width,
               SoftmaxState& state, float* to) {
  const MergeFactors factors = merge(state, other);
  if (factors.left == 1 && factors.right == 0) return;
  if (factors.left == 0 && factors.right == 1) {
    std::memcpy(to, from, sizeof(float) * static_cast<std::size_t>(width));
    return;
  }
  kernels.blend(from, factors.left, factors.right, width, to);
}

}  // namespace quire::attention
