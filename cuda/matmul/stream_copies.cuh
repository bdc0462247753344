#pragma once

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"
#include "matmul/tensor_map.h"
#include "matmul/warpgroup.cuh"

// Weights and input of stream_tokens on their way to shared memory.
namespace quire::cuda {

template <int kTokenTiles>
struct StreamLayout {
  static constexpr int kRingBytes = stream_ring_bytes(kTokenTiles);  // of a unit
  static constexpr int kInputBytes = kTokenTiles * 8 * kBlockColumns * 2;
  // Shared memory: weights, inputs, barriers "full" and "free" of each, and "sums stored".
  static constexpr int kInputs = kStreamUnits * kRingBytes;
  static constexpr int kWeightsFull = kInputs + kStreamInputs * kInputBytes;
  static constexpr int kWeightsFree = kWeightsFull + 8 * kStreamUnits * kStreamMostSlots;
  static constexpr int kInputFull = kWeightsFree + 8 * kStreamUnits * kStreamMostSlots;
  static constexpr int kInputFree = kInputFull + 8 * kStreamInputs;
  static constexpr int kStored = kInputFree + 8 * kStreamInputs;
  static_assert(kStored + 8 <= stream_shared_bytes(kTokenTiles));
  // The sums take the place of the inputs.
  static_assert(kStreamInputs * kInputBytes >=
                kTokenTiles * 8 * kStreamUnits * kStreamUnitRows * 4);
};

#if __CUDA_ARCH__ >= 900
// A thread block's slice of the columns, in blocks, and its tiles; and the slots of a unit's ring,
// which holds half a unit's rows in each.
struct StreamPlace {
  int slice, first_tile, tile_step, tiles, begin, end, slot_bytes, slots;

  __device__ __forceinline__ StreamPlace(const ProductArgs& args, int ring_bytes)
      : slice(blockIdx.x % args.slices),
        first_tile(blockIdx.x / args.slices),
        tile_step(gridDim.x / args.slices),
        tiles((args.units + kStreamUnits - 1) / kStreamUnits),
        begin(args.blocks * slice / args.slices),
        end(args.blocks * (slice + 1) / args.slices),
        slot_bytes((args.unit_rows + 15) / 16 * 1024),
        slots(min(ring_bytes / slot_bytes, kStreamMostSlots)) {}
};

// Where a ring is, and whether it has been gone through an even number of times.
struct RingPlace {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// The boxes of a tile's units: two of half a unit's rows each. What lies outside is zero, and not
// read.
struct TileBoxes {
  int map[kStreamUnits][2], row[kStreamUnits][2];

  __device__ __forceinline__ TileBoxes(const ProductArgs& args, int tile) {
#pragma unroll
    for (int u = 0; u < kStreamUnits; ++u) {
      const UnitPlace place(args, tile * kStreamUnits + u, args.unit_rows);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        map[u][half] = args.gated ? half : place.part;
        row[u][half] = place.row + (args.gated ? 0 : half * args.unit_rows / 2);
      }
    }
  }
};

// By one thread.
template <int kTokenTiles>
__device__ __forceinline__ void stream_weights(const ProductArgs& args, const WideMaps& maps,
                                               const StreamPlace& place, std::uint32_t shared) {
  using Layout = StreamLayout<kTokenTiles>;
  const int box_bytes = args.unit_rows / 2 * kBlockColumns * 2;
  RingPlace ring;
  allow_next_kernel();
#pragma unroll 1
  for (int tile = place.first_tile; tile < place.tiles; tile += place.tile_step) {
    const TileBoxes boxes(args, tile);
#pragma unroll 1
    for (int block = place.begin; block < place.end; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int u = 0; u < kStreamUnits; ++u) {
          const int slot = u * kStreamMostSlots + ring.slot;
          const std::uint32_t full = shared + Layout::kWeightsFull + 8 * slot;
          wait_barrier(shared + Layout::kWeightsFree + 8 * slot, ring.parity ^ 1);
          expect_bytes(full, box_bytes);
          copy_box(shared + u * Layout::kRingBytes + ring.slot * place.slot_bytes,
                   &maps.weights[boxes.map[u][half]], block * kBlockColumns, boxes.row[u][half],
                   full);
        }
        ring.advance(place.slots);
      }
    }
  }
}

// By one thread.
template <int kTokenTiles>
__device__ __forceinline__ void stream_input(const ProductArgs& args, const WideMaps& maps,
                                             const StreamPlace& place, std::uint32_t shared) {
  using Layout = StreamLayout<kTokenTiles>;
  wait_for_previous_kernel();
  RingPlace ring;
  std::uint32_t parity = 1;
#pragma unroll 1
  for (int tile = place.first_tile; tile < place.tiles; tile += place.tile_step, parity ^= 1) {
    wait_barrier(shared + Layout::kStored, parity);
#pragma unroll 1
    for (int block = place.begin; block < place.end; ++block) {
      const std::uint32_t full = shared + Layout::kInputFull + 8 * ring.slot;
      wait_barrier(shared + Layout::kInputFree + 8 * ring.slot, ring.parity ^ 1);
      expect_bytes(full, Layout::kInputBytes);
      copy_box(shared + Layout::kInputs + ring.slot * Layout::kInputBytes, &maps.input,
               block * kBlockColumns, 0, full);
      ring.advance(kStreamInputs);
    }
  }
}

#endif

}  // namespace quire::cuda
