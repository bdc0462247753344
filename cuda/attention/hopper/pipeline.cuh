#pragma once

#include "attention/hopper/asynchronous.cuh"
#include "attention/hopper/forward_args.h"
#include "attention/hopper/policy.h"

namespace quire::cuda::hopper {

// What the producer tells the consumers of a tile, beside its queries. rows 0: no more tiles. Of a
// prefix (ForwardPolicy::prefix) the rows are those of all heads of a key-value head and of several
// sequences, first_row is that of their partial results, and they see keys [first_position, keys).
struct Tile {
  int first_row;  // of the pass
  int rows;
  int first_position;
  int keys;  // of the sequence
  int head;
  int first_page;  // of the sequence
};

// Key blocks of a tile, taken from the last to the first. Of [begin, end), those in
// [full_begin, full_end) are seen whole by every row.
struct TileBlocks {
  int first_key, end_key;
  int begin, end, full_begin, full_end;

  // Of a prefix.
  __device__ TileBlocks(const Tile& tile, int block_keys)
      : first_key(tile.first_position),
        end_key(tile.keys),
        begin(first_key / block_keys),
        end((end_key + block_keys - 1) / block_keys),
        full_begin(begin),
        full_end(end_key / block_keys) {}
  __device__ TileBlocks(const ForwardArgs& args, const Tile& tile, int block_keys) {
    const int last = tile.first_position + tile.rows - 1;
    end_key = args.causal ? last + 1 : tile.keys;
    first_key = args.window > 0 ? max(0, tile.first_position + 1 - args.window) : 0;
    begin = first_key / block_keys;
    end = (end_key + block_keys - 1) / block_keys;
    full_end = (args.causal ? tile.first_position + 1 : tile.keys) / block_keys;
    full_begin =
        args.window > 0 ? (max(0, last + 1 - args.window) + block_keys - 1) / block_keys : 0;
  }
};

// Stage and parity of the count-th use of a ring.
template <int kRing>
struct RingPlace {
  int stage, parity;
  __device__ explicit RingPlace(unsigned count)
      : stage(static_cast<int>(count % kRing)), parity(static_cast<int>(count / kRing & 1)) {}
};

// Shared memory of a thread block and its barriers: of each stage of queries, keys and values one
// that tells of its arrival and one that tells that the consumers are done with it; of each stage
// of queries also one that tells that its tile is known. Scales of fp8 come with the keys, but
// their place is released by itself; so is that of fp8's queries, once they are rounded (kRaw).
template <class Shape>
struct Pipeline {
  static constexpr ForwardPolicy kPolicy = Shape::kPolicy;
  static constexpr ForwardMemory kMemory{kPolicy};
  static constexpr int kConsumerWarps = kPolicy.warpgroups * 4;
  static constexpr int kStages = kPolicy.stages;
  static constexpr int kMostStages = kPolicy.most_stages();
  enum Kind { kQuery, kKeys, kValues, kTile, kRaw = kTile, kScales, kKinds };
  static_assert(kKinds == kBarrierKinds);
  using Place = RingPlace<kStages>;  // of a use of keys, values or scales

  unsigned start;

  __device__ static TileBlocks blocks(const ForwardArgs& args, const Tile& tile) {
    if constexpr (kPolicy.prefix) {
      return TileBlocks(tile, kPolicy.block_keys);
    } else {
      return TileBlocks(args, tile, kPolicy.block_keys);
    }
  }

  __device__ unsigned arrived(Kind kind, int stage) const {
    return start + kMemory.barriers + (2 * kMostStages * kind + stage) * 8;
  }
  __device__ unsigned released(Kind kind, int stage) const {
    return arrived(kind, kMostStages + stage);
  }
  __device__ unsigned query(int stage) const {
    return start + kMemory.query + (kPolicy.fp8() ? 0 : stage * kMemory.query_bytes);
  }
  __device__ unsigned query_codes() const { return start + kMemory.codes; }
  __device__ unsigned query_scales() const { return start + kMemory.query_scales; }
  __device__ unsigned keys(int stage) const {
    return start + kMemory.keys + stage * kMemory.block_bytes;
  }
  __device__ unsigned values(int stage) const {
    return start + kMemory.values + stage * kMemory.block_bytes;
  }
  __device__ unsigned key_scales(int stage) const {
    return start + kMemory.scales + stage * kMemory.scale_bytes;
  }
  __device__ unsigned value_exponents(int stage) const {
    return key_scales(stage) + kMemory.scale_table_bytes;
  }
  __device__ unsigned inverse_scales(int stage) const {
    return key_scales(stage) + 2 * kMemory.scale_table_bytes;
  }
  __device__ unsigned block_scales(int stage) const {
    return key_scales(stage) + 3 * kMemory.scale_table_bytes;
  }
  __device__ unsigned sums() const { return start + kMemory.sums; }
  __device__ unsigned tile(int stage) const { return start + kMemory.tiles + stage * 32; }

  __device__ unsigned unused() const { return tile(0) + sizeof(Tile); }

  __device__ void store_tile(int stage, const Tile& tile) const {
    asm volatile(
        "st.shared.v4.b32 [%0], {%1, %2, %3, %4};\nst.shared.v2.b32 [%0 + 16], {%5, %6};" ::"r"(
            this->tile(stage)),
        "r"(tile.first_row), "r"(tile.rows), "r"(tile.first_position), "r"(tile.keys),
        "r"(tile.head), "r"(tile.first_page)
        : "memory");
  }
  __device__ Tile load_tile(int stage) const {
    Tile tile;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%6];\nld.shared.v2.b32 {%4, %5}, [%6 + 16];"
                 : "=r"(tile.first_row), "=r"(tile.rows), "=r"(tile.first_position),
                   "=r"(tile.keys), "=r"(tile.head), "=r"(tile.first_page)
                 : "r"(this->tile(stage)));
    return tile;
  }

  // By one thread.
  __device__ void create_barriers() const {
    constexpr int kScaleWarps = kPolicy.fp8() ? 1 : 0;
    for (int stage = 0; stage < kMostStages; ++stage) {
      for (const Kind kind : {kQuery, kKeys, kValues}) {
        MemoryBarrier::create(arrived(kind, stage), 1 + (kind == kKeys ? kScaleWarps : 0));
        // The warps that bring values and scales read the tile that comes with queries.
        MemoryBarrier::create(released(kind, stage),
                              kConsumerWarps + (kind == kQuery ? 1 + kScaleWarps : 0));
      }
      MemoryBarrier::create(arrived(kTile, stage), 1);
      MemoryBarrier::create(released(kScales, stage), kConsumerWarps);
      MemoryBarrier::create(released(kRaw, stage), kConsumerWarps);
    }
    MemoryBarrier::publish();
  }
};

}  // namespace quire::cuda::hopper
