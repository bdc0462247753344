#pragma once

#include "attention/hopper/decode_kernels.h"
#include "attention/hopper/decode_producer.cuh"
#include "attention/small_tile_steps.cuh"

namespace quire::cuda::hopper {

// Places of 16-byte chunks of rows as the copy engine swizzles them, [tokens / 8][parts][8][row].
template <int kRowBytes>
struct SwizzledRows {
  static constexpr int kRow = kRowBytes % 128 == 0 ? 128 : 64;
  static constexpr int kParts = kRowBytes / kRow;
  static constexpr int kChunks = kRow / 16;  // of a part

  unsigned place, turn;

  // Of a row and a chunk. Others are counted from there, by numbers with none of its bits within a
  // part.
  __device__ SwizzledRows(int row, int chunk)
      : place(row / 8 * (8 * kRowBytes) + row % 8 * kRow + chunk / kChunks * (8 * kRow)),
        turn(((chunk % kChunks) ^ (kRow == 128 ? row % 8 : row / 2 % 4)) * 16) {}
  __device__ unsigned operator()(int chunk) const {
    return place + chunk / kChunks * (8 * kRow) + ((chunk % kChunks * 16) ^ turn);
  }
};

// The warps that compute. The result's bits are those of small_tile_kernel.
template <class Format, int kHeadSize>
struct DecodeConsumer {
  using Pipe = DecodePipeline<Format, kHeadSize>;
  using Steps = SmallTileSteps<Format, kHeadSize>;
  static constexpr DecodeMemory kMemory = Pipe::kMemory;
  static constexpr int kRowBytes = kHeadSize * Format::kBytes;
  static constexpr int kPairChunks = Format::kBytes;  // of 16 dimensions
  using QueryOperands = unsigned[Steps::kPairs][4];

  const AttentionArgs& args;
  Pipe pipe;
  int warp, lane;

  __device__ void release(unsigned barrier) const {
    __syncwarp();
    if (lane == 0) MemoryBarrier::arrive(barrier);
  }

  // Rows of the tile's queries, and the keys that they see.
  __device__ void take_tile(const Tile& tile, int count, QueryOperands& queries) const {
    if (threadIdx.x < kSmallRows) pipe.bounds(count)[threadIdx.x] = tile.bounds(args, threadIdx.x);
    load_queries<Format, kHeadSize, kSmallRows, Steps::kWarps * 32>(
        args, tile, pipe.memory + kMemory.query, kMemory.query_pitch);
    Steps::sync_tile();
    const unsigned from =
        pipe.start + kMemory.query + (lane & 15) * kMemory.query_pitch + (lane >> 4) * 16;
#pragma unroll
    for (int step = 0; step < Steps::kPairs; ++step) load_matrices(queries[step], from + step * 32);
  }

  __device__ void clear_row(unsigned values, int row) const {
    const unsigned zeros[4] = {};
    for (int pair = warp; pair < Steps::kPairs; pair += Steps::kWarps) {
      const SwizzledRows<kRowBytes> places(row, pair * 2);
      store_shared(values + places(0), zeros);
      store_shared(values + places(1), zeros);
    }
  }

  // What a block has beside the tile's keys may be anything, and 0 times anything is not 0: clears
  // values, of the warp's own dimensions, or their scales.
  __device__ void clear_values(const Tile& tile, int block, int use) const {
    const int first = tile.first_key - block * kKeyBlock, end = tile.end_key - block * kKeyBlock;
    if (first <= 0 && end >= kKeyBlock) return;
    for (int row = lane; row < kKeyBlock; row += 32) {
      if (row >= first && row < end) continue;
      if constexpr (Format::kScaled) {
        pipe.scales(use)[row] = 0;
      } else {
        clear_row(pipe.data(use), row);
      }
    }
    publish_shared_writes();
    __syncwarp();
  }

  __device__ unsigned key_place(int step) const {
    const SwizzledRows<kRowBytes> places(warp * 16 + Format::key_row(lane),
                                         Format::key_chunk(lane));
    return places(step * kPairChunks);
  }
  __device__ unsigned value_place(int step, int i) const {
    if constexpr (Format::kTransposedValues) {
      return (step * kHeadSize + (warp + i * Steps::kWarps) * 16) * 16 + Format::value_lane(lane);
    } else {
      const SwizzledRows<kRowBytes> places(Format::value_row(lane),
                                           warp * kPairChunks + Format::value_chunk(lane));
      return step * 16 * kRowBytes + places(i * Steps::kWarps * kPairChunks);
    }
  }

  __device__ void compute_block(const Tile& tile, int block, int use, const int2* bounds,
                                const QueryOperands& queries, typename Steps::State& state) const {
    float* scores_memory = pipe.scores(use / 2);
    MemoryBarrier::wait(pipe.arrived(use), pipe.parity(use));
    const unsigned keys = pipe.data(use);
    Steps::own_scores(
        [&](unsigned(&to)[4], int step) {
#pragma unroll
          for (int i = 0; i < 4; ++i) to[i] = queries[step][i];
        },
        [&](int step) { return keys + key_place(step); }, scores_memory, warp, lane);
    if constexpr (!Format::kScaled) release(pipe.released(use));
    Steps::sync_tile();
    BlockScores scores;
    Steps::all_scores(scores, scores_memory, lane);
    prepare_scores<Format>(args, tile, block, scores, pipe.scales(use), bounds, lane >> 2, lane);
    if constexpr (Format::kScaled) release(pipe.released(use));
    const float factor = args.soft_cap > 0 ? 1.0f : args.score_factor;
    Steps::rescale(state.sums, softmax_step(scores, factor, state.states, tile.rows > 8));
    ++use;
    MemoryBarrier::wait(pipe.arrived(use), pipe.parity(use));
    if (tile.masked(block)) clear_values(tile, block, use);
    if constexpr (Format::kScaled) scale_scores(scores, pipe.scales(use), lane);
    const unsigned values = pipe.data(use);
    Steps::add_values(
        state.sums, scores, [&](int step, int i) { return values + value_place(step, i); }, warp);
    release(pipe.released(use));
  }

  __device__ void run() const {
    wait_for_previous_kernel();
    allow_next_kernel();
    int uses = 0;
    for (int count = 0;; ++count) {
      MemoryBarrier::wait(pipe.tile_arrived(count), pipe.tile_parity(count));
      const Tile& tile = pipe.tile(count);
      if (tile.rows == 0) return;
      QueryOperands queries;
      take_tile(tile, count, queries);
      typename Steps::State state;
      Steps::take_prefix(args, tile, state, warp, lane);
      for (int block = tile.first_block(); block < tile.end_block(); ++block) {
        compute_block(tile, block, uses, pipe.bounds(count), queries, state);
        uses += 2;
        Steps::end_block(args, tile, block, state, warp, lane);
      }
      Steps::end_tile(args, tile, state, reinterpret_cast<int*>(pipe.memory + kMemory.last), warp,
                      lane);
      release(pipe.tile_released(count));
    }
  }
};

template <class Format, int kHeadSize>
__global__ void __launch_bounds__(DecodePipeline<Format, kHeadSize>::kThreads,
                                  decode_blocks_per_sm(kHeadSize* Format::kBytes, Format::kScaled))
    decode_kernel(const __grid_constant__ DecodeArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // the other architectures of a build get an empty kernel
  extern __shared__ __align__(16) std::byte shared[];
  const DecodePipeline<Format, kHeadSize> pipe(shared);
  pipe.create_barriers();
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == kSmallWarps) {
    DecodeProducer<Format, kHeadSize>{args, pipe, lane}.run();
  } else {
    DecodeConsumer<Format, kHeadSize>{args.call, pipe, warp, lane}.run();
  }
#endif
}

template <class Format, int kHeadSize>
DecodeKernel decode_instance() {
  constexpr int kBytes = kHeadSize * Format::kBytes;
  return {decode_kernel<Format, kHeadSize>, DecodePipeline<Format, kHeadSize>::kThreads,
          DecodePipeline<Format, kHeadSize>::kMemory.total,
          decode_blocks_per_sm(kBytes, Format::kScaled), SwizzledRows<kBytes>::kRow};
}

// The kernel of a type, if it is one of these.
template <int kHeadSize, KvType... kTypes>
DecodeKernel decode_instance_of(KvType type) {
  DecodeKernel kernel;
  ((type == kTypes ? void(kernel = decode_instance<KvFormat<kTypes>, kHeadSize>()) : void()), ...);
  return kernel;
}

}  // namespace quire::cuda::hopper
