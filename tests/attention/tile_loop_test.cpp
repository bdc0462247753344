#include "attention/tile_loop.h"

#include <vector>

#include "catch.h"

namespace quire::attention {
namespace {

// Kernels that only record which keys they are asked for, and a source that does the same.
struct Record {
  std::vector<KeyRange> loads;  // absolute keys
  std::vector<int> blocks;
};

void record_load(const void* context, int block, KeyRange wanted, float*, float*) {
  auto& record = *static_cast<Record*>(const_cast<void*>(context));
  record.blocks.push_back(block);
  record.loads.push_back({block * kKeyBlock + wanted.first, block * kKeyBlock + wanted.last});
}

void no_scores(const float*, int, int, int, const float*, int, int, float*) {}
// Counts the keys that each row sees in its sum.
void count_keys(float*, int rows, const KeyRange* ranges, int, int, float, SoftmaxState* states,
                float* rescale) {
  for (int row = 0; row < rows; ++row) {
    const int seen = ranges[row].last - ranges[row].first;
    rescale[row] = 1;
    if (seen <= 0) continue;
    states[row].maximum = 0;
    states[row].sum += static_cast<float>(seen);
  }
}
void no_accumulate(const float*, int, const float*, const float*, int, int, int, float*) {}
void no_blend(const float*, float, float, int, float*) {}
constexpr TileKernels kCounting{no_scores, count_keys, no_accumulate, no_blend};

TEST_CASE("the tile loop visits blocks in order and each row sees its keys once") {
  for (const auto& [first, last] :
       {KeyRange{0, 1}, {0, 64}, {63, 65}, {0, 1024}, {100, 1030}, {1023, 3073}, {5000, 5001}}) {
    Record record;
    const KeyRange ranges[2] = {{first, last}, {last - 1, last + 3}};
    float output[2 * 16], partial[kTileRows * 16], scores[kTileRows * kKeyBlock];
    Tile tile;
    tile.rows = 2;
    tile.head_size = tile.width = 16;
    tile.ranges = ranges;
    tile.source.load = record_load;
    tile.source.context = &record;
    TileScratch scratch;
    scratch.scores = scores;
    scratch.partial = partial;
    SoftmaxState states[2];
    attend(kCounting, tile, scratch, states, output);
    CHECK(states[0].sum == static_cast<float>(last - first));
    CHECK(states[1].sum == 4.0f);
    int next = first;
    for (std::size_t i = 0; i < record.loads.size(); ++i) {
      CHECK(record.loads[i].first == next);
      CHECK(record.blocks[i] == next / kKeyBlock);
      next = record.loads[i].last;
    }
    CHECK(next == last + 3);
  }
}

TEST_CASE("a tile's splits are those that its keys touch") {
  const KeyRange ranges[2] = {{1023, 1025}, {2048, 2049}};
  Tile tile;
  tile.rows = 2;
  tile.ranges = ranges;
  const KeyRange splits = covered_splits(tile);
  CHECK((splits.first == 0 && splits.last == 3));
  tile.ranges = ranges + 1;
  tile.rows = 1;
  const KeyRange one = covered_splits(tile);
  CHECK((one.first == 2 && one.last == 3));
}

}  // namespace
}  // namespace quire::attention
