#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/tensor_map.h"

namespace quire::cuda::hopper {

// A warp that brings data: one takes tiles and brings their queries and keys, another the values. A
// block of keys or values is several boxes of tokens of one page; each lane brings one.
template <class Shape>
struct Producer {
  using Pipe = Pipeline<Shape>;
  using Place = typename Pipe::Place;
  static constexpr ForwardPolicy kPolicy = Shape::kPolicy;
  static constexpr bool kFp8 = kPolicy.fp8();
  static constexpr int kQueryRow = kPolicy.query_row();
  static constexpr int kParts = kPolicy.head_size * 2 / kQueryRow;  // of a row of queries

  const ForwardArgs& args;
  Pipe pipe;
  int lane;

  __device__ void bring_queries_and_keys() const {
    const int tiles = args.list.counters->entries * args.heads_per_entry;
    int next = __shfl_sync(0xffffffffu, ask(), 0);
    int uses = 0;
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      if (next >= tiles) {
        post(place, {});
        if (lane == 0) {
          MemoryBarrier::arrive(pipe.arrived(Pipe::kQuery, place.stage));
          leave();
        }
        return;
      }
      const TileEntry entry = args.list.entries[next / args.heads_per_entry];
      const int head = next % args.heads_per_entry;
      Tile tile{entry.first_row,
                entry.rows,
                entry.first_position,
                entry.keys,
                entry.first_head + (kPolicy.prefix ? head * args.group : head),
                entry.first_page};
      next = ask();
      const TileBlocks blocks = Pipe::blocks(args, tile);
      int block = blocks.end - 1;
      int page = page_of(tile, blocks, block);
      bring<Pipe::kKeys>(tile, uses++, block, page);
      page = page_of(tile, blocks, block - 1);
      if constexpr (kPolicy.prefix) tile.first_row = entry.first_partial + head * entry.rows;
      bring_queries(tile, entry.first_row, count, place);
      while (--block >= blocks.begin) {
        const int later_page = page_of(tile, blocks, block - 1);
        bring<Pipe::kKeys>(tile, uses++, block, page);
        page = later_page;
      }
      next = __shfl_sync(0xffffffffu, next, 0);
    }
  }

  __device__ void bring_values() const {
    int uses = 0;
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      MemoryBarrier::wait(pipe.arrived(Pipe::kTile, place.stage), place.parity);
      const Tile tile = pipe.load_tile(place.stage);
      __syncwarp();
      if (lane == 0) MemoryBarrier::arrive(pipe.released(Pipe::kQuery, place.stage));
      if (tile.rows == 0) return;
      const TileBlocks blocks = Pipe::blocks(args, tile);
      int block = blocks.end - 1;
      int page = page_of(tile, blocks, block);
      for (; block >= blocks.begin; --block) {
        const int later_page = page_of(tile, blocks, block - 1);
        bring<Pipe::kValues>(tile, uses++, block, page);
        page = later_page;
      }
    }
  }

 private:
  __device__ int ask() const { return lane == 0 ? atomicAdd(&args.list.counters->next, 1) : 0; }

  // First token of this lane's box, in the block.
  __device__ int box_token() const { return lane << args.box_shift; }

  // Page of this lane's box of a block; -1 if none of the box's keys is wanted.
  __device__ int page_of(const Tile& tile, const TileBlocks& blocks, int block) const {
    const int key = block * kPolicy.block_keys + box_token();
    if (box_token() >= kPolicy.block_keys || block < blocks.begin || key >= blocks.end_key ||
        key + (1 << args.box_shift) <= blocks.first_key) {
      return -1;
    }
    return __ldg(args.pages + tile.first_page + (key >> args.page_shift));
  }

  // The count-th block of keys or values, once its place is free.
  template <typename Pipe::Kind kKind>
  __device__ void bring(const Tile& tile, int count, int block, int page) const {
    const Place place(count);
    MemoryBarrier::wait(pipe.released(kKind, place.stage), place.parity ^ 1);
    if constexpr (kFp8 && kKind == Pipe::kValues) {
      bring_fp8_values(tile, place.stage, block, page);
      return;
    }
    const unsigned barrier = pipe.arrived(kKind, place.stage);
    if (lane == 0) MemoryBarrier::arrive_expecting(barrier, Pipe::kMemory.block_bytes);
    __syncwarp();
    if (box_token() < kPolicy.block_keys) {
      const unsigned to = kKind == Pipe::kKeys ? pipe.keys(place.stage) : pipe.values(place.stage);
      const int head = tile.head / args.group + (kKind == Pipe::kKeys ? 0 : args.kv_heads);
      const int key = block * kPolicy.block_keys + box_token();
      const int token = head << args.page_shift | (key & ((1 << args.page_shift) - 1));
      copy_box(to + box_token() * kPolicy.head_size * kPolicy.element_bytes, args.kv, barrier, 0, 0,
               0, token / kAtomRows, page);
    }
    __syncwarp();
  }

  // Boxes of values as they lie in the pages; the consumers clear the place of those that are not
  // wanted.
  __device__ void bring_fp8_values(const Tile& tile, int stage, int block, int page) const {
    const unsigned barrier = pipe.arrived(Pipe::kValues, stage);
    const unsigned bytes = kPolicy.head_size << args.box_shift;
    const unsigned wanted = __ballot_sync(0xffffffffu, page >= 0);
    if (lane == 0) MemoryBarrier::arrive_expecting(barrier, __popc(wanted) * bytes);
    __syncwarp();
    if (page >= 0) {
      const int key = block * kPolicy.block_keys + box_token();
      const int token =
          tile.head / args.group << args.page_shift | (key & ((1 << args.page_shift) - 1));
      copy_bytes(pipe.values(stage) + box_token() * kPolicy.head_size,
                 args.slab + page * args.page_bytes + args.value_offset + token * kPolicy.head_size,
                 bytes, barrier);
    }
    __syncwarp();
  }

  // Of a box. Those of a prefix are of whole sequences.
  __device__ unsigned query_bytes() const {
    if constexpr (kPolicy.prefix) return args.query_rows * kPolicy.head_size * 2;
    return Pipe::kMemory.query_bytes;
  }

  // Tells the others of a tile, once they have read what was there.
  __device__ void post(const RingPlace<kPolicy.query_stages>& place, const Tile& tile) const {
    MemoryBarrier::wait(pipe.released(Pipe::kQuery, place.stage), place.parity ^ 1);
    if (lane == 0) {
      pipe.store_tile(place.stage, tile);
      MemoryBarrier::arrive(pipe.arrived(Pipe::kTile, place.stage));
    }
  }

  // `first_row`: of the pass.
  __device__ void bring_queries(const Tile& tile, int first_row, int count,
                                const RingPlace<kPolicy.query_stages>& place) const {
    post(place, tile);
    if constexpr (kFp8) {
      MemoryBarrier::wait(pipe.released(Pipe::kRaw, 0), RingPlace<1>(count).parity ^ 1);
    }
    const unsigned barrier = pipe.arrived(Pipe::kQuery, place.stage);
    if (lane == 0) MemoryBarrier::arrive_expecting(barrier, query_bytes());
    __syncwarp();
    if (lane < kParts) {
      copy_box(pipe.query(place.stage) + lane * kPolicy.rows() * kQueryRow, args.query, barrier,
               lane * kQueryRow / 2, tile.head, first_row);
    }
    __syncwarp();
  }

  // Sets the counters to 0 for the next launch, once nobody takes tiles any more.
  __device__ void leave() const {
    if (atomicAdd(&args.list.counters->done, 1) != static_cast<int>(gridDim.x) - 1) return;
    args.list.counters->next = 0;
    args.list.counters->done = 0;
  }
};

}  // namespace quire::cuda::hopper
