#pragma once

#include <cstddef>

#include "attention/attention_args.h"
#include "attention/mma.cuh"
#include "attention/tile.cuh"
#include "attention/tile_policy.h"

namespace quire::cuda {

// Brings blocks of 64 keys and their values from a sequence's pages to shared memory. Keys outside
// [first_key, end_key) become zeros and neither they nor their pages are read.
template <class Format, int kHeadSize, int kThreads>
struct KeyBlocks {
  static constexpr int kRowBytes = kHeadSize * Format::kBytes;
  static constexpr int kChunk = kRowBytes % 16 == 0 ? 16 : 8;
  static constexpr int kChunks = kRowBytes / kChunk;  // of a row
  static constexpr int kPageSlots = kKeyBlock / 8;

  const AttentionArgs& args;
  const Tile& tile;         // shared
  const std::byte** slots;  // shared: [kPageBlocks][kPageSlots], keys of the tile's head in a page

  // From there to the head's scales; `scales` is the offset of head 0's from keys of head 0.
  __device__ unsigned scale_offset(unsigned scales) const {
    return scales - (tile.head << args.page_shift) * (kRowBytes - 4);
  }

  // Page of the block's part `slot`; -1 if none of its keys is wanted.
  __device__ int page(int block, int slot) const {
    const int keys_of_slot = min(1 << args.page_shift, kKeyBlock);
    const int key = block * kKeyBlock + slot * keys_of_slot;
    if (slot * keys_of_slot >= kKeyBlock || key >= tile.end_key ||
        key + keys_of_slot <= tile.first_key) {
      return -1;
    }
    return __ldg(args.sequences.pages + tile.first_page + (key >> args.page_shift));
  }

  __device__ void set_page(int block, int slot, int page) const {
    slots[(block % kPageBlocks) * kPageSlots + slot] =
        args.keys + (static_cast<std::size_t>(tile.head) << args.page_shift) * kRowBytes +
        (page < 0 ? 0 : static_cast<std::size_t>(page) * args.page_bytes);
  }

  // Starts the copy of a block whose pages are set. `to` is the stage: keys, values, scales.
  __device__ void load(int block, unsigned to, int key_pitch, int slot_bytes) const {
    const int thread = threadIdx.x;
    const int slot_shift = min(args.page_shift, 6);
    const int mask = (1 << args.page_shift) - 1;
    const int first_key = tile.first_key, end_key = tile.end_key;
    const std::byte* const* row_slots = slots + (block % kPageBlocks) * kPageSlots;
    constexpr int kCopies = kKeyBlock * kChunks;
#pragma unroll
    for (int first = 0; first < kCopies; first += kThreads) {
      const int i = first + thread;
      if (kCopies % kThreads != 0 && i >= kCopies) break;
      const int row = i / kChunks;
      const int chunk = i - row * kChunks;
      const int key = block * kKeyBlock + row;
      const bool wanted = key >= first_key && key < end_key;
      const std::byte* from =
          row_slots[row >> slot_shift] + (key & mask) * kRowBytes + chunk * kChunk;
      const unsigned place = to + row * key_pitch + chunk * kChunk;
      copy_async<kChunk>(place, from, wanted);
      copy_async<kChunk>(place + slot_bytes, from + args.value_offset, wanted);
    }
    if constexpr (Format::kScaled) {
      for (int i = thread; i < 2 * kKeyBlock; i += kThreads) {
        const int row = i % kKeyBlock;
        const int key = block * kKeyBlock + row;
        const std::byte* from =
            row_slots[row >> slot_shift] + (key & mask) * 4 +
            scale_offset(i < kKeyBlock ? args.key_scale_offset : args.value_scale_offset);
        copy_async<4>(to + 2 * slot_bytes + i * 4, from, key >= first_key && key < end_key);
      }
    }
  }
};

}  // namespace quire::cuda
