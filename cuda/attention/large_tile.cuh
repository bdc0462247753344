#pragma once

#include "attention/key_blocks.cuh"
#include "attention/tile.cuh"
#include "base/dependent_kernel.cuh"

namespace quire::cuda {

// Tiles of 128 rows: prefill. Each warp has 16 or 32 of the rows and all keys and dimensions.
template <class Format, int kWidth>
struct LargeTile {
  static constexpr TilePolicy kPolicy = large_policy(kWidth);
  static constexpr int kThreads = kPolicy.warps * 32;
  static constexpr int kRowTiles = kPolicy.row_tiles;
  static_assert(kPolicy.warps * kRowTiles * 16 == kLargeRows);
  static constexpr TileMemory kMemory =
      tile_memory(kLargeRows, kWidth, Format::kBytes, kPolicy.stages, Format::kScaled, false);
  // Where the keys and values of a block go.
  __device__ static unsigned stage_of(int block) {
    return kMemory.stages + static_cast<unsigned>(block) % kPolicy.stages * kMemory.stage;
  }

  static constexpr int kPairs = kWidth / 16;
  using Sums = float[kRowTiles][kPairs][2][4];
  // float4 words of a thread's sums.
  static constexpr int kCarryWords = kRowTiles * kPairs * 2;
  static constexpr int kCarryAtOnce = kPairs % 4 == 0 ? 8
                                                      : 2 * (kPairs % 5 == 0   ? 5
                                                             : kPairs % 6 == 0 ? 6
                                                             : kPairs % 4 == 0 ? 4
                                                                               : kPairs);

  __device__ static void block_scores(BlockScores (&scores)[kRowTiles], unsigned queries,
                                      unsigned keys) {
#pragma unroll
    for (int step = 0; step < kPairs; ++step) {
      unsigned a[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        load_matrices(a[i], queries + i * 16 * kMemory.query_pitch + step * 32);
      }
#pragma unroll
      for (int pair = 0; pair < kKeyBlock / 16; ++pair) {
        unsigned b[4];
        Format::load_keys(b, keys + pair * 16 * kMemory.key_pitch + step * 16 * Format::kBytes);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          multiply(scores[i][2 * pair], a[i], b[0], b[1], typename Format::Operand{});
          multiply(scores[i][2 * pair + 1], a[i], b[2], b[3], typename Format::Operand{});
        }
      }
    }
  }

  __device__ static void add_values(Sums& sums, const BlockScores (&scores)[kRowTiles],
                                    unsigned values) {
#pragma unroll
    for (int step = 0; step < kKeyBlock / 16; ++step) {
      unsigned a[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) pack_scores<Format>(a[i], scores[i], step);
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        unsigned b[4];
        Format::load_values(b, values + Format::value_place(step, pair, kMemory.key_pitch, kWidth));
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          multiply(sums[i][pair][0], a[i], b[0], b[1], typename Format::Operand{});
          multiply(sums[i][pair][1], a[i], b[2], b[3], typename Format::Operand{});
        }
      }
    }
  }

  __device__ static void clear(Sums& sums, SoftmaxState (&states)[kRowTiles][2]) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      states[i][0] = {};
      states[i][1] = {};
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[i][pair][e / 4][e % 4] = 0;
      }
    }
  }

  __device__ static void rescale(float (&sums)[kPairs][2][4], float2 factors) {
    if (!__any_sync(0xffffffffu, factors.x != 1.0f || factors.y != 1.0f)) return;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        sums[pair][tile][0] *= factors.x;
        sums[pair][tile][1] *= factors.x;
        sums[pair][tile][2] *= factors.y;
        sums[pair][tile][3] *= factors.y;
      }
    }
  }

  // Folds the sums of a finished split into those of earlier splits, which lie in global memory
  // [word][thread] (the states in shared memory [row]): too many for the registers. `first`: there
  // are none. Unless `last`, puts them back and starts afresh.
  __device__ static void fold(float4* carry, float2* carried_states, Sums& sums,
                              SoftmaxState (&states)[kRowTiles][2], bool first, bool last,
                              int row) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      MergeFactors factors[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2& place = carried_states[row + i * 16 + half * 8];
        if (!first) {
          SoftmaxState state{place.x, place.y};
          factors[half] = attention::merge(state, states[i][half], BaseTwo{});
          states[i][half] = state;
        }
        if (!last) place = make_float2(states[i][half].maximum, states[i][half].sum);
      }
      // Some words at a time, read before any is written: a read behind a write would wait for it.
      float4* words = carry + i * kPairs * 2 * kThreads + threadIdx.x;
#pragma unroll
      for (int part = 0; part < kPairs * 2; part += kCarryAtOnce) {
        float4 left[kCarryAtOnce];
        if (!first) {
#pragma unroll
          for (int j = 0; j < kCarryAtOnce; ++j) left[j] = words[(part + j) * kThreads];
        }
#pragma unroll
        for (int j = 0; j < kCarryAtOnce; ++j) {
          float(&four)[4] = sums[i][(part + j) / 2][(part + j) % 2];
          if (!first) {
            four[0] = merge_sum(left[j].x, four[0], factors[0]);
            four[1] = merge_sum(left[j].y, four[1], factors[0]);
            four[2] = merge_sum(left[j].z, four[2], factors[1]);
            four[3] = merge_sum(left[j].w, four[3], factors[1]);
          }
          if (!last) {
            words[(part + j) * kThreads] = make_float4(four[0], four[1], four[2], four[3]);
            four[0] = four[1] = four[2] = four[3] = 0;
          }
        }
      }
      if (!last) {
        states[i][0] = {};
        states[i][1] = {};
      }
    }
  }

  // These go through the row tiles by recursion: nvcc does not unroll a loop around them, and an
  // array under a run-time index goes to local memory.
  template <int kTile = 0>
  __device__ static void write_output(const AttentionArgs& args, const Tile& tile, const Sums& sums,
                                      const SoftmaxState (&states)[kRowTiles][2], int first_row,
                                      int lane) {
    output_row<0>(args, tile, sums[kTile], states[kTile][0], first_row + kTile * 16, lane);
    output_row<1>(args, tile, sums[kTile], states[kTile][1], first_row + kTile * 16 + 8, lane);
    if constexpr (kTile + 1 < kRowTiles) {
      write_output<kTile + 1>(args, tile, sums, states, first_row, lane);
    }
  }

  // A split's result.
  template <int kTile = 0>
  __device__ static void write_partial(const AttentionArgs& args, const Tile& tile, int split,
                                       const Sums& sums, const SoftmaxState (&states)[kRowTiles][2],
                                       int first_row, int lane) {
    const int row = first_row + kTile * 16;
    const std::size_t place = partial_row(args, tile, split, row);
    if (row < tile.rows) partial_row_of<0>(args, place, sums[kTile], states[kTile][0], lane);
    if (row + 8 < tile.rows) {
      partial_row_of<1>(args, place + 8, sums[kTile], states[kTile][1], lane);
    }
    if constexpr (kTile + 1 < kRowTiles) {
      write_partial<kTile + 1>(args, tile, split, sums, states, first_row, lane);
    }
  }

 private:
  using TileSums = float[kPairs][2][4];

  template <int kHalf>
  __device__ static void output_row(const AttentionArgs& args, const Tile& tile,
                                    const TileSums& sums, const SoftmaxState& state, int row,
                                    int lane) {
    if (row >= tile.rows) return;
    const float factor = finish_row(args, state, tile.query_head(args, row));
    const int size = head_size<kWidth>(args);
    __nv_bfloat16* to = args.output + tile.place(args, row) * size;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      store_output<Format, kWidth>(to, size, sums[pair], pair, kHalf, factor, lane);
    }
  }

  template <int kHalf>
  __device__ static void partial_row_of(const AttentionArgs& args, std::size_t place,
                                        const TileSums& sums, const SoftmaxState& state, int lane) {
    const int size = head_size<kWidth>(args);
    float* to = args.partial + place * size;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      store_partial<Format, kWidth>(to, size, sums[pair], pair, kHalf, lane);
    }
    if ((lane & 3) == 0) args.partial_states[place] = make_float2(state.maximum, state.sum);
  }
};

template <class Format, int kWidth>
__global__ void __launch_bounds__(LargeTile<Format, kWidth>::kThreads,
                                  LargeTile<Format, kWidth>::kPolicy.blocks_per_sm)
    large_tile_kernel(const __grid_constant__ AttentionArgs args) {
  using Body = LargeTile<Format, kWidth>;
  constexpr TileMemory kMemory = Body::kMemory;
  constexpr int kAhead = Body::kPolicy.stages - 1;
  constexpr int kRowTiles = Body::kRowTiles;
  extern __shared__ __align__(16) std::byte memory[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp * kRowTiles * 16 + (lane >> 2);  // of the lane's rows
  const unsigned start = shared_address(memory);
  int2* bounds = reinterpret_cast<int2*>(memory + kMemory.bounds);
  float2* carried_states = reinterpret_cast<float2*>(memory + kMemory.carried);
  const std::byte** page_slots = reinterpret_cast<const std::byte**>(memory + kMemory.pages);
  const unsigned query_lane = start + kMemory.query +
                              (warp * kRowTiles * 16 + (lane & 15)) * kMemory.query_pitch +
                              (lane >> 4) * 16;
  const unsigned key_lane = pitched_key<Format>(lane, kMemory.key_pitch);
  const unsigned value_lane = kMemory.slot + pitched_value<Format>(lane, kMemory.key_pitch);
  float4* carry =
      args.carry + static_cast<std::size_t>(blockIdx.x) * Body::kCarryWords * Body::kThreads;
  SharedQueue* shared = reinterpret_cast<SharedQueue*>(memory + kMemory.queue);
  const Tile& tile = shared->tile;
  const KeyBlocks<Format, kWidth, Body::kThreads> blocks{args, tile, page_slots};
  wait_for_previous_kernel();
  allow_next_kernel();
  PlanCounters* counters = args.plan.counters;
  ItemQueue queue(args, args.plan.large_items, &counters->large_next, &counters->large_done,
                  shared);
  queue.start(counters->large_items);
  __syncthreads();
  while (tile.rows > 0) {
    const int first_block = tile.first_block(), end_block = tile.end_block();
    if (threadIdx.x < (kAhead + 1) * 8) {
      const int block = first_block + threadIdx.x / 8;
      blocks.set_page(block, threadIdx.x % 8, blocks.page(block, threadIdx.x % 8));
    }
    for (int row = threadIdx.x; row < kLargeRows; row += Body::kThreads) {
      bounds[row] = tile.bounds(args, row);
    }
    __syncthreads();
    const int asked = queue.ask();
    for (int block = first_block; block < first_block + kAhead; ++block) {
      if (block < end_block) {
        blocks.template load<false>(block, start + Body::stage_of(block), kMemory.key_pitch,
                                    kMemory.slot);
      }
      commit_copies();
    }
    load_queries<Format, kWidth, kLargeRows, Body::kThreads>(args, tile, memory + kMemory.query,
                                                             kMemory.query_pitch);
    queue.fetch(asked);

    typename Body::Sums sums;
    SoftmaxState states[kRowTiles][2];
    Body::clear(sums, states);
    const float factor = args.soft_cap > 0 ? 1.0f : args.score_factor;
    for (int block = first_block; block < end_block; ++block) {
      wait_copies<kAhead - 1>();
      __syncthreads();
      const int ahead = block + kAhead;
      if (ahead + 1 < end_block) {
        blocks.template load<true>(ahead, start + Body::stage_of(ahead), kMemory.key_pitch,
                                   kMemory.slot);
      } else if (ahead < end_block) {
        blocks.template load<false>(ahead, start + Body::stage_of(ahead), kMemory.key_pitch,
                                    kMemory.slot);
      }
      commit_copies();
      const int later_page = threadIdx.x < 8 ? blocks.page(block + kAhead + 1, threadIdx.x) : -1;

      const unsigned stage_start = start + Body::stage_of(block);
      const float* scales =
          reinterpret_cast<const float*>(memory + Body::stage_of(block) + 2 * kMemory.slot);
      BlockScores scores[kRowTiles] = {};
      Body::block_scores(scores, query_lane, stage_start + key_lane);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        prepare_scores<Format>(args, tile, block, scores[i], scales, bounds, first_row + i * 16,
                               lane);
        Body::rescale(sums[i], softmax_step(scores[i], factor, states[i]));
        if constexpr (Format::kScaled) scale_scores(scores[i], scales + kKeyBlock, lane);
      }
      Body::add_values(sums, scores, stage_start + value_lane);
      if (threadIdx.x < 8) blocks.set_page(block + kAhead + 1, threadIdx.x, later_page);

      const bool last = block + 1 == end_block;
      if (last || (args.fold_splits && (block + 1) % kSplitBlocks == 0)) {
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          sum_lanes(states[i][0]);
          sum_lanes(states[i][1]);
        }
        const bool first_split =
            !args.fold_splits || block / kSplitBlocks == tile.first_block() / kSplitBlocks;
        if (tile.partial >= 0) {
          const int split =
              args.fold_splits ? (block * kKeyBlock - tile.item_first_key) / kSplitKeys : 0;
          Body::write_partial(args, tile, split, sums, states, first_row, lane);
          if (!last) Body::clear(sums, states);
        } else if (!first_split || !last) {
          Body::fold(carry, carried_states, sums, states, first_split, last, first_row);
        }
      }
    }
    if (tile.partial < 0) Body::write_output(args, tile, sums, states, first_row, lane);
    wait_copies<0>();
    __syncthreads();
    queue.advance();
    __syncthreads();
  }
  queue.leave();
}

}  // namespace quire::cuda
