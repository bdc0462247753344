#pragma once

#include "attention/hopper/decode_pipeline.cuh"
#include "attention/hopper/tensor_map.h"
#include "base/dependent_kernel.cuh"

namespace quire::cuda::hopper {

// The warp that takes the items of the plan and brings their keys and values, block after block and
// item after item, as far ahead as the ring has room. A block is four boxes of 16 tokens, each of
// one page and brought by a lane; boxes without wanted keys are left out.
template <class Format, int kHeadSize>
struct DecodeProducer {
  using Pipe = DecodePipeline<Format, kHeadSize>;
  static constexpr int kRowBytes = kHeadSize * Format::kBytes;

  const DecodeArgs& args;
  Pipe pipe;
  int lane;

  __device__ void run() const {
    if (lane == 0) prefetch_map(args.kv);
    bool waited = !args.call.plan_is_old;
    if (waited) wait_for_previous_kernel();
    int index = blockIdx.x;
    WorkItem item = item_of(index);  // there may be fewer, but one does not wait to know
    const int items = args.call.plan.counters->small_items * args.call.kv_heads;
    int uses = 0;
    for (int count = 0;; ++count) {
      MemoryBarrier::wait(pipe.tile_released(count), pipe.tile_parity(count) ^ 1);
      Tile tile(args.call, item, index % args.call.kv_heads);
      if (index >= items) tile.rows = 0;
      if (lane == 0) {
        pipe.tile(count) = tile;
        MemoryBarrier::arrive(pipe.tile_arrived(count));
      }
      __syncwarp();
      if (tile.rows == 0) break;
      int next = waited ? ask() : 0;
      Pages pages(*this, tile);
      for (int block = tile.first_block(); block < tile.end_block(); ++block) {
        // Keys of earlier passes may be read before the kernel that writes this pass's has ended.
        if (!waited && (block + 1) * kKeyBlock > tile.first_position) {
          wait_for_previous_kernel();
          waited = true;
          next = ask();
        }
        const int page = pages.of(block);
        bring_keys(tile, uses++, block, page);
        bring_values(tile, uses++, block, page);
      }
      if (!waited) {
        wait_for_previous_kernel();
        waited = true;
        next = ask();
      }
      index = __shfl_sync(0xffffffffu, next, 0);
      item = item_of(index);
    }
    if (!waited) wait_for_previous_kernel();
    if (lane == 0) leave();
  }

 private:
  static constexpr int kBoxes = kKeyBlock / kDecodeBox;

  // The pages of a tile's boxes, a box a lane, 32 boxes ahead.
  struct Pages {
    const DecodeProducer& producer;
    const Tile& tile;
    int first_box;
    int now, later;

    __device__ Pages(const DecodeProducer& producer, const Tile& tile)
        : producer(producer), tile(tile), first_box(tile.first_block() * kBoxes) {
      now = page_of(first_box + producer.lane);
      later = page_of(first_box + 32 + producer.lane);
    }
    // Page of this lane's box of a block; blocks ascend.
    __device__ int of(int block) {
      const int box = block * kBoxes;
      if (box - first_box == 32) {
        first_box = box;
        now = later;
        later = page_of(first_box + 32 + producer.lane);
      }
      return __shfl_sync(0xffffffffu, now, box - first_box + (producer.lane & (kBoxes - 1)));
    }
    // -1: none of the box's keys is wanted.
    __device__ int page_of(int box) const {
      const AttentionArgs& call = producer.args.call;
      const int key = box * kDecodeBox;
      if (key >= tile.end_key || key + kDecodeBox <= tile.first_key) return -1;
      return __ldg(call.sequences.pages + tile.first_page + (key >> call.page_shift));
    }
  };

  __device__ int ask() const {
    return lane == 0
               ? static_cast<int>(gridDim.x) + atomicAdd(&args.call.plan.counters->small_next, 1)
               : 0;
  }

  __device__ WorkItem item_of(int index) const {
    return args.call.plan
        .small_items[min(index / args.call.kv_heads, args.call.plan.item_capacity - 1)];
  }

  // Token of this lane's box, in the block and among those of all heads of a page.
  __device__ int box_token() const { return lane * kDecodeBox; }
  __device__ int page_token(const Tile& tile, int block) const {
    const int key = block * kKeyBlock + box_token();
    return tile.head << args.call.page_shift | (key & ((1 << args.call.page_shift) - 1));
  }

  // Waits for room, and tells how many bytes come.
  __device__ void begin(int use, bool wanted) const {
    constexpr int kBytes = kDecodeBox * (kRowBytes + (Format::kScaled ? 4 : 0));
    MemoryBarrier::wait(pipe.released(use), pipe.parity(use) ^ 1);
    const unsigned boxes = __ballot_sync(0xffffffffu, wanted);
    if (lane == 0) MemoryBarrier::arrive_expecting(pipe.arrived(use), __popc(boxes) * kBytes);
    __syncwarp();
  }

  // This lane's box from the rows of keys or values, and its scales.
  __device__ void bring_rows(int use, int token, int page) const {
    copy_box(pipe.data(use) + box_token() * kRowBytes, args.kv, pipe.arrived(use), 0, 0, 0,
             token / kAtomRows, page);
  }
  __device__ void bring_scales(int use, int token, int page, unsigned offset) const {
    copy_bytes(shared_address_of(pipe.scales(use) + box_token()),
               args.call.keys + page * args.call.page_bytes + offset + token * 4, kDecodeBox * 4,
               pipe.arrived(use));
  }

  __device__ void bring_keys(const Tile& tile, int use, int block, int page) const {
    const bool wanted = lane < kBoxes && page >= 0;
    begin(use, wanted);
    if (wanted) {
      const int token = page_token(tile, block);
      bring_rows(use, token, page);
      if constexpr (Format::kScaled) bring_scales(use, token, page, args.call.key_scale_offset);
    }
    __syncwarp();
  }

  __device__ void bring_values(const Tile& tile, int use, int block, int page) const {
    const bool wanted = lane < kBoxes && page >= 0;
    begin(use, wanted);
    if (wanted) {
      const int token = page_token(tile, block);
      if constexpr (Format::kTransposedValues) {
        copy_bytes(pipe.data(use) + box_token() * kRowBytes,
                   args.call.keys + page * args.call.page_bytes + args.call.value_offset +
                       token * kRowBytes,
                   kDecodeBox * kRowBytes, pipe.arrived(use));
      } else {
        bring_rows(use, token + (args.call.kv_heads << args.call.page_shift), page);
      }
      if constexpr (Format::kScaled) bring_scales(use, token, page, args.call.value_scale_offset);
    }
    __syncwarp();
  }

  // The last block of the grid leaves the counters as the next launch needs them.
  __device__ void leave() const {
    PlanCounters* counters = args.call.plan.counters;
    if (atomicAdd(&counters->small_done, 1) != static_cast<int>(gridDim.x) - 1) return;
    counters->small_next = 0;
    counters->small_done = 0;
  }
};

}  // namespace quire::cuda::hopper
