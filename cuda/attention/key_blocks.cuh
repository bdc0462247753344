#pragma once

#include <cstddef>

#include "attention/attention_args.h"
#include "attention/mma.cuh"
#include "attention/tile.cuh"
#include "attention/tile_policy.h"

namespace quire::cuda {

// Brings blocks of 64 keys and their values from a sequence's pages to shared memory. Keys outside
// [first_key, end_key), and dimensions past the head's, become zeros; of keys outside, the pages
// are not read either.
template <class Format, int kWidth, int kThreads>
struct KeyBlocks {
  // Of a row; those of the smallest heads are no whole 16 bytes.
  static constexpr int kChunk = kWidth <= 32 ? 8 : 16;
  static constexpr int kChunks = kWidth * Format::kBytes / kChunk;
  // Keys that lie together in every page; a block is eight of these boxes.
  static constexpr int kBox = 8;
  static constexpr int kBoxes = kKeyBlock / kBox;
  // Of transposed values, rows of 16 keys.
  static constexpr int kValueRows = kKeyBlock / 16 * kWidth;
  static constexpr int kValueSteps = (kValueRows + kThreads - 1) / kThreads;

  const AttentionArgs& args;
  const Tile& tile;         // shared
  const std::byte** boxes;  // shared: [kPageBlocks][kBoxes], where the keys of a box begin

  __device__ int row_bytes() const { return head_size<kWidth>(args) * Format::kBytes; }

  // Page of a box; -1 if none of its keys is wanted.
  __device__ int page(int block, int box) const {
    const int key = block * kKeyBlock + box * kBox;
    if (key >= tile.end_key || key + kBox <= tile.first_key) return -1;
    return __ldg(args.sequences.pages + tile.first_page + (key >> args.page_shift));
  }

  __device__ void set_page(int block, int box, int page) const {
    const int in_page = (block * kKeyBlock + box * kBox) & ((1 << args.page_shift) - 1);
    const std::size_t row =
        (static_cast<std::size_t>(tile.head) << args.page_shift) + (page < 0 ? 0 : in_page);
    boxes[block % kPageBlocks * kBoxes + box] =
        args.keys + row * row_bytes() +
        (page < 0 ? 0 : static_cast<std::size_t>(page) * args.page_bytes);
  }

  // Starts the copy of a block whose pages are set. `to` is the stage: keys, values, scales. In an
  // `inner` block, neither the first nor the last of the tile, all keys are wanted.
  template <bool kInner>
  __device__ void load(int block, unsigned to, int key_pitch, int slot_bytes) const {
    const std::byte* const* from_boxes = boxes + block % kPageBlocks * kBoxes;
    const int first = kInner ? 0 : tile.first_key - block * kKeyBlock;
    const int end = kInner ? kKeyBlock : tile.end_key - block * kKeyBlock;
    constexpr int kCopies = kKeyBlock * kChunks;
    constexpr int kSteps = (kCopies + kThreads - 1) / kThreads;
    const int thread = threadIdx.x % kThreads;
    // All places before the first copy: a read behind a copy would wait.
    const std::byte* from[kSteps];
    const std::byte* values_from[kValueSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int row = row_of(thread, step), chunk = chunk_of(thread, step);
      const std::byte* box = from_boxes[row / kBox % kBoxes];
      from[step] = box + static_cast<unsigned>(row % kBox * row_bytes() + chunk * kChunk);
    }
    if constexpr (Format::kTransposedValues) {
#pragma unroll
      for (int step = 0; step < kValueSteps; ++step) {
        values_from[step] = value_from(from_boxes, value_row(thread, step), first);
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int row = row_of(thread, step), chunk = chunk_of(thread, step);
      if (kCopies % kThreads != 0 && row >= kKeyBlock) break;
      const bool wanted = (kInner || (row >= first && row < end)) &&
                          (kWholeHeads<kWidth> || chunk * kChunk < row_bytes());
      const unsigned place = to + row * key_pitch + chunk * kChunk;
      copy_async<kChunk>(place, from[step], wanted);
      if constexpr (Format::kTransposedValues) continue;
      copy_async<kChunk>(place + slot_bytes, from[step] + args.value_offset, wanted);
    }
    if constexpr (Format::kTransposedValues) {
      copy_values(values_from, to + slot_bytes, thread, first, end);
    }
    if constexpr (Format::kScaled) load_scales(block, to + 2 * slot_bytes, first, end);
  }

 private:
  // Chunk `chunk` of row `row` is copied by `thread` in step `step`; written so that the thread's
  // part and the step's fall apart where they can.
  __device__ static int row_of(int thread, int step) {
    if constexpr (kThreads % kChunks == 0) return thread / kChunks + step * (kThreads / kChunks);
    return (thread + step * kThreads) / kChunks;
  }
  __device__ static int chunk_of(int thread, int step) {
    if constexpr (kThreads % kChunks == 0) return thread % kChunks;
    return (thread + step * kThreads) % kChunks;
  }

  // Box of 16 values and dimension that `thread` copies in step `step`.
  __device__ static int value_row(int thread, int step) {
    return thread + step * kThreads;
  }

  // Values in boxes of 16 keys, as they are in the pages; what a box has beside wanted keys stays.
  __device__ const std::byte* value_from(const std::byte* const* from_boxes, int row,
                                         int first) const {
    const int box = row / kWidth % (kKeyBlock / 16), dimension = row % kWidth;
    const int known = box * 16 + kBox <= first ? 1 : 0;  // the half whose page is known
    return from_boxes[2 * box + known] - known * kBox * row_bytes() + args.value_offset +
           dimension * 16;
  }
  __device__ void copy_values(const std::byte* const (&from)[kValueSteps], unsigned to, int thread,
                              int first, int end) const {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      const int row = value_row(thread, step);
      if (kValueRows % kThreads != 0 && row >= kValueRows) break;
      const int box = row / kWidth, dimension = row % kWidth;
      const bool in_head = kWholeHeads<kWidth> || dimension < args.head_size;
      copy_async<16>(to + (box * kWidth + dimension) * 16, from[step],
                     in_head && box * 16 < end && box * 16 + 16 > first);
    }
  }

  // Scales of the keys, then of the values. They are four bytes apart where keys are row_bytes().
  __device__ void load_scales(int block, unsigned to, int first, int end) const {
    const std::byte* const* from_boxes = boxes + block % kPageBlocks * kBoxes;
    const int mask = (1 << args.page_shift) - 1;
    for (int i = threadIdx.x; i < 2 * kKeyBlock; i += kThreads) {
      const int row = i % kKeyBlock;
      const int box_row =
          (tile.head << args.page_shift) + ((block * kKeyBlock + row / kBox * kBox) & mask);
      const bool wanted = row >= first && row < end;
      const unsigned offset = (i < kKeyBlock ? args.key_scale_offset : args.value_scale_offset) -
                              box_row * (row_bytes() - 4) + row % kBox * 4;
      copy_async<4>(to + i * 4, from_boxes[row / kBox] + (wanted ? offset : 0), wanted);
    }
  }
};

}  // namespace quire::cuda
