#pragma once

#include "attention/hopper/asynchronous.cuh"
#include "attention/hopper/decode_args.h"
#include "attention/hopper/decode_memory.h"
#include "attention/tile.cuh"

namespace quire::cuda::hopper {

// Where the parts of DecodeMemory are, and its barriers: of each stage of the ring and each place
// for a tile one that tells of its arrival, and one that tells that all warps are done with it.
template <class Format, int kHeadSize>
struct DecodePipeline {
  static constexpr DecodeMemory kMemory = decode_memory(kHeadSize, Format::kBytes, Format::kScaled);
  static constexpr int kWarps = kSmallWarps;  // that compute
  static constexpr int kThreads = (kWarps + 1) * 32;

  std::byte* memory;
  unsigned start;  // its address

  __device__ explicit DecodePipeline(std::byte* unaligned) {
    const unsigned address = shared_address_of(unaligned);
    start = (address + 1023) / 1024 * 1024;
    memory = unaligned + (start - address);
  }

  // Of the ring: keys and values take turns.
  static __device__ int stage(int use) { return use % kMemory.stages; }
  static __device__ int parity(int use) { return use / kMemory.stages & 1; }
  __device__ unsigned data(int use) const { return start + stage(use) * kMemory.stage_bytes; }
  __device__ float* scales(int use) const {
    return reinterpret_cast<float*>(memory + kMemory.scales) + stage(use) * kKeyBlock;
  }
  __device__ unsigned arrived(int use) const { return start + kMemory.barriers + stage(use) * 16; }
  __device__ unsigned released(int use) const { return arrived(use) + 8; }

  static __device__ int tile_parity(int count) { return count / kDecodeTiles & 1; }
  __device__ Tile& tile(int count) const {
    return *reinterpret_cast<Tile*>(memory + kMemory.tiles + count % kDecodeTiles * kTileBytes);
  }
  __device__ int2* bounds(int count) const {
    return reinterpret_cast<int2*>(memory + kMemory.bounds) + count % kDecodeTiles * kSmallRows;
  }
  __device__ unsigned tile_arrived(int count) const {
    return start + kMemory.barriers + (kMemory.stages + count % kDecodeTiles) * 16;
  }
  __device__ unsigned tile_released(int count) const { return tile_arrived(count) + 8; }

  __device__ float* scores(int use) const {
    return reinterpret_cast<float*>(memory + kMemory.scores) + use % 2 * kSmallRows * kScorePitch;
  }

  // By all threads, each its barriers.
  __device__ void create_barriers() const {
    if (threadIdx.x < kMemory.stages + kDecodeTiles) {
      const unsigned barrier = start + kMemory.barriers + threadIdx.x * 16;
      MemoryBarrier::create(barrier, 1);
      MemoryBarrier::create(barrier + 8, kWarps);
    }
    MemoryBarrier::publish();
  }
};
static_assert(sizeof(Tile) <= kTileBytes);

}  // namespace quire::cuda::hopper
