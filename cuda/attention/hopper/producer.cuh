#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/tensor_map.h"

namespace quire::cuda::hopper {

// One warp that takes tiles and brings their queries, keys and values. A block of keys is several
// boxes of tokens of one page; each lane brings one.
template <class Shape>
struct Producer {
  using Pipe = Pipeline<Shape>;
  static constexpr ForwardPolicy kPolicy = Shape::kPolicy;
  static constexpr int kParts = kPolicy.head_size / kBoxElements;  // of a row of queries

  const ForwardArgs& args;
  Pipe pipe;
  int lane;

  __device__ int ask() const { return lane == 0 ? atomicAdd(&args.list.counters->next, 1) : 0; }

  // Page of this lane's box of a block; -1 if none of the box's keys is wanted.
  __device__ int page_of(const std::int32_t* pages, const TileBlocks& blocks, int block,
                         int token) const {
    const int key = block * kPolicy.block_keys + token;
    if (block < blocks.begin || key >= blocks.end_key ||
        key + (1 << args.box_shift) <= blocks.first_key) {
      return -1;
    }
    return __ldg(pages + (key >> args.page_shift));
  }

  __device__ void run() const {
    const int token = lane << args.box_shift;  // of this lane's box, in the block
    const bool has_box = token < kPolicy.block_keys;
    const unsigned box_place = token * kPolicy.head_size * 2;
    const int page_mask = (1 << args.page_shift) - 1;
    const int tiles = args.list.counters->entries * args.heads_per_entry;

    int next = __shfl_sync(0xffffffffu, ask(), 0);
    int uses = 0;  // of the rings of keys and values
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      if (next >= tiles) {
        MemoryBarrier::wait(pipe.released(Pipe::kQuery, place.stage), place.parity ^ 1);
        if (lane == 0) {
          store_tile(place.stage, {});
          MemoryBarrier::arrive(pipe.arrived(Pipe::kQuery, place.stage));
          leave();
        }
        return;
      }
      const TileEntry entry = args.list.entries[next / args.heads_per_entry];
      const Tile tile{entry.first_row, entry.rows, entry.first_position, entry.keys,
                      entry.first_head + next % args.heads_per_entry};
      next = ask();
      const TileBlocks blocks(args, tile, kPolicy.block_keys);
      const std::int32_t* pages = args.pages + entry.first_page;
      const int kv_head = tile.head / args.group;

      const auto bring = [&](typename Pipe::Kind kind, unsigned to, int use, int block, int page) {
        const RingPlace<kStages> at(use);
        MemoryBarrier::wait(pipe.released(kind, at.stage), at.parity ^ 1);
        const unsigned barrier = pipe.arrived(kind, at.stage);
        if (lane == 0) MemoryBarrier::arrive_expecting(barrier, Pipe::kMemory.block_bytes);
        __syncwarp();
        if (has_box) {
          const int key = block * kPolicy.block_keys + token;
          const int head = kind == Pipe::kKeys ? kv_head : args.kv_heads + kv_head;
          copy_box(to + at.stage * Pipe::kMemory.block_bytes + box_place, args.kv, barrier, 0, 0, 0,
                   ((head << args.page_shift) | (key & page_mask)) / kAtomRows, page);
        }
        __syncwarp();
      };

      int page = page_of(pages, blocks, blocks.end - 1, token);
      int later_page = page_of(pages, blocks, blocks.end - 2, token);
      bring(Pipe::kKeys, pipe.keys(0), uses, blocks.end - 1, page);
      bring_queries(tile, place);
      for (int block = blocks.end - 1; block >= blocks.begin; --block, ++uses) {
        if (block > blocks.begin) {
          bring(Pipe::kKeys, pipe.keys(0), uses + 1, block - 1, later_page);
        }
        bring(Pipe::kValues, pipe.values(0), uses, block, page);
        page = later_page;
        later_page = page_of(pages, blocks, block - 2, token);
      }
      next = __shfl_sync(0xffffffffu, next, 0);
    }
  }

  __device__ void bring_queries(const Tile& tile,
                                const RingPlace<kPolicy.query_stages>& place) const {
    MemoryBarrier::wait(pipe.released(Pipe::kQuery, place.stage), place.parity ^ 1);
    const unsigned barrier = pipe.arrived(Pipe::kQuery, place.stage);
    if (lane == 0) {
      store_tile(place.stage, tile);
      MemoryBarrier::arrive_expecting(barrier, Pipe::kMemory.query_bytes);
    }
    __syncwarp();
    if (lane < kParts) {
      copy_box(pipe.query(place.stage) + lane * kPolicy.rows() * 128, args.query, barrier,
               lane * kBoxElements, tile.head, tile.first_row);
    }
    __syncwarp();
  }

  __device__ void store_tile(int stage, const Tile& tile) const {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\nst.shared.b32 [%0 + 16], %5;" ::"r"(
                     pipe.tile(stage)),
                 "r"(tile.first_row), "r"(tile.rows), "r"(tile.first_position), "r"(tile.keys),
                 "r"(tile.head)
                 : "memory");
  }

  // Sets the counters to 0 for the next launch, once nobody takes tiles any more.
  __device__ void leave() const {
    if (atomicAdd(&args.list.counters->done, 1) != static_cast<int>(gridDim.x) - 1) return;
    args.list.counters->next = 0;
    args.list.counters->done = 0;
  }
};

}  // namespace quire::cuda::hopper
