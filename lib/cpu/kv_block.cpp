#include "cpu/kv_block.h"

#include <algorithm>

namespace quire::cpu {
namespace {

using attention::KeyRange;
using attention::kKeyBlock;

int padded(int head_size) {
  return (head_size + 15) / 16 * 16;
}

void load_block(const void* context, int block, KeyRange wanted, float* keys, float* values) {
  const auto& blocks = *static_cast<const KvBlocks*>(context);
  const int page_size = blocks.layout.page_size;
  const int width = padded(blocks.layout.head_size);
  const int start = block * kKeyBlock;
  int first = wanted.first;
  while (first < wanted.last) {
    const int page = (start + first) / page_size;
    const int page_start = page * page_size - start;  // counted from the block's first key
    const int last = std::min(wanted.last, page_start + page_size);
    const std::byte* head = blocks.kv->slab(blocks.pages[page]) +
                            blocks.layout.head_bytes * static_cast<std::size_t>(blocks.head);
    // Keys lie token by token in vectors: neighbours of the wanted ones are read and masked later.
    const int column = first / 8 * 8;
    blocks.kernels->read_keys(blocks.layout, head, column - page_start, (last + 7) / 8 * 8 - column,
                              keys + column);
    blocks.kernels->read_values(blocks.layout, head, first - page_start, last - first, width,
                                values + static_cast<std::ptrdiff_t>(first) * width);
    first = last;
  }
}

// The vectors of 16 tokens of a block that hold wanted keys; pages hold whole vectors.
KvVectors vectors_of(const KvBlocks& blocks, int block, KeyRange wanted) {
  KvVectors vectors{};
  for (int v = wanted.first / 16; v * 16 < wanted.last; ++v) {
    const int key = block * kKeyBlock + v * 16;
    const PageId page = blocks.pages[key / blocks.layout.page_size];
    vectors.head[v] =
        blocks.kv->slab(page) + blocks.layout.head_bytes * static_cast<std::size_t>(blocks.head);
    vectors.token[v] = key % blocks.layout.page_size;
  }
  return vectors;
}

void direct_scores(const void* context, int block, KeyRange wanted, const float* queries, int rows,
                   float* scores) {
  const auto& blocks = *static_cast<const KvBlocks*>(context);
  blocks.kernels->direct_scores(blocks.layout, vectors_of(blocks, block, wanted), queries, rows,
                                padded(blocks.layout.head_size), wanted.first / 16,
                                (wanted.last + 15) / 16, scores);
}

void direct_accumulate(const void* context, int block, KeyRange wanted, const float* scores,
                       int rows, const float* rescale, float* output) {
  const auto& blocks = *static_cast<const KvBlocks*>(context);
  blocks.kernels->direct_accumulate(blocks.layout, vectors_of(blocks, block, wanted), scores, rows,
                                    rescale, padded(blocks.layout.head_size), wanted.first,
                                    wanted.last, output);
}

// The eights of tokens of all vectors that hold wanted keys. With pages of 8 half a vector may have
// no page: the nearest wanted tokens stand in, and are masked later.
PairBlock pair_block_of(const KvBlocks& blocks, int block, KeyRange wanted) {
  const int first = wanted.first / 8, last = (wanted.last - 1) / 8;
  PairBlock found{};
  for (int eight = wanted.first / 16 * 2; eight < (wanted.last + 15) / 16 * 2; ++eight) {
    const int found_eight = blocks.layout.page_size < 16 ? std::clamp(eight, first, last) : eight;
    const int key = block * kKeyBlock + found_eight * 8;
    const PageId page = blocks.pages[key / blocks.layout.page_size];
    found.head[eight] =
        blocks.kv->slab(page) + blocks.layout.head_bytes * static_cast<std::size_t>(blocks.head);
    found.token[eight] = key % blocks.layout.page_size;
  }
  return found;
}

void pair_scores(const void* context, int block, KeyRange wanted, const float* queries, int rows,
                 float* scores) {
  const auto& blocks = *static_cast<const KvBlocks*>(context);
  blocks.pairs->scores(blocks.layout, pair_block_of(blocks, block, wanted), queries, rows,
                       padded(blocks.layout.head_size), wanted.first / 16, (wanted.last + 15) / 16,
                       scores);
}

void pair_accumulate(const void* context, int block, KeyRange wanted, const float* weights,
                     int rows, const float* rescale, float* output) {
  const auto& blocks = *static_cast<const KvBlocks*>(context);
  blocks.pairs->accumulate(blocks.layout, pair_block_of(blocks, block, wanted), weights, rows,
                           rescale, padded(blocks.layout.head_size), wanted.first, wanted.last,
                           output);
}

}  // namespace

attention::BlockSource KvBlocks::source() const {
  if (pairs != nullptr) {
    return {nullptr, pair_scores, pair_accumulate, attention::kTileRows, this};
  }
  if (layout.page_size < 16) return {load_block, nullptr, nullptr, 0, this};
  return {load_block, direct_scores, direct_accumulate, attention::kDirectRows, this};
}

}  // namespace quire::cpu
