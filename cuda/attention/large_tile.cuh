#pragma once

#include "attention/key_blocks.cuh"
#include "attention/tile.cuh"

namespace quire::cuda {

// Tiles of 128 rows: prefill. Each warp has 16 or 32 of the rows and all keys and dimensions.
template <class Format, int kHeadSize>
struct LargeTile {
  static constexpr TilePolicy kPolicy = large_policy(kHeadSize);
  static constexpr int kThreads = kPolicy.warps * 32;
  static constexpr int kRowTiles = kPolicy.row_tiles;
  static_assert(kPolicy.warps * kRowTiles * 16 == kLargeRows);
  static constexpr TileMemory kMemory =
      tile_memory(kLargeRows, kHeadSize, Format::kBytes, kPolicy.stages, Format::kScaled, false);
  static constexpr int kPairs = padded_width(kHeadSize) / 16;
  using Sums = float[kRowTiles][kPairs][2][4];
  // float4 words of a thread's sums.
  static constexpr int kCarryWords = kRowTiles * kPairs * 2;

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
        Format::load_values(b, values + step * 16 * kMemory.key_pitch + pair * 16 * Format::kBytes);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          multiply(sums[i][pair][0], a[i], b[0], b[1], typename Format::Operand{});
          multiply(sums[i][pair][1], a[i], b[2], b[3], typename Format::Operand{});
        }
      }
    }
  }

  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
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
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          float(&four)[4] = sums[i][pair][tile];
          float4* word = carry + ((i * kPairs + pair) * 2 + tile) * kThreads + threadIdx.x;
          if (!first) {
            const float4 left = *word;
            four[0] = merge_sum(left.x, four[0], factors[0]);
            four[1] = merge_sum(left.y, four[1], factors[0]);
            four[2] = merge_sum(left.z, four[2], factors[1]);
            four[3] = merge_sum(left.w, four[3], factors[1]);
          }
          if (!last) {
            *word = make_float4(four[0], four[1], four[2], four[3]);
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

  template <int kHalf>
  __device__ static void write_row(const AttentionArgs& args, const Tile& tile,
                                   const WorkItem& item, const float (&sums)[kPairs][2][4],
                                   const SoftmaxState& state, int row, int lane) {
    if (row >= tile.rows) return;
    if (item.partial >= 0) {
      const std::size_t partial =
          static_cast<std::size_t>(item.partial) + tile.head * tile.rows + row;
      float* to = args.partial + partial * kHeadSize;
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        store_partial<Format, kHeadSize>(to, sums[pair], pair, kHalf, lane);
      }
      if ((lane & 3) == 0) args.partial_states[partial] = make_float2(state.maximum, state.sum);
    } else {
      const float factor = finish_row(args, state, tile.query_head(args, row));
      __nv_bfloat16* to = args.output + tile.place(args, row) * kHeadSize;
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        store_output<Format, kHeadSize>(to, sums[pair], pair, kHalf, factor, lane);
      }
    }
  }

  // By recursion: nvcc does not unroll a loop around this, and an array under a run-time index goes
  // to local memory.
  template <int kTile = 0>
  __device__ static void write(const AttentionArgs& args, const Tile& tile, const WorkItem& item,
                               const Sums& sums, const SoftmaxState (&states)[kRowTiles][2],
                               int first_row, int lane) {
    const int row = first_row + kTile * 16;
    write_row<0>(args, tile, item, sums[kTile], states[kTile][0], row, lane);
    write_row<1>(args, tile, item, sums[kTile], states[kTile][1], row + 8, lane);
    if constexpr (kTile + 1 < kRowTiles) {
      write<kTile + 1>(args, tile, item, sums, states, first_row, lane);
    }
  }
};

template <class Format, int kHeadSize>
__global__ void __launch_bounds__(LargeTile<Format, kHeadSize>::kThreads,
                                  LargeTile<Format, kHeadSize>::kPolicy.blocks_per_sm)
    large_tile_kernel(const __grid_constant__ AttentionArgs args) {
  using Body = LargeTile<Format, kHeadSize>;
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
  const unsigned key_lane = Format::key_lane(lane, kMemory.key_pitch);
  const unsigned value_lane = kMemory.slot + Format::value_lane(lane, kMemory.key_pitch);
  float4* carry =
      args.carry + static_cast<std::size_t>(blockIdx.x) * Body::kCarryWords * Body::kThreads;
  const PlanCounters& counters = *args.plan.counters;
  const ItemQueue queue{&args.plan.counters->large_next, &args.plan.counters->large_done,
                        counters.large_items * args.kv_heads,
                        reinterpret_cast<int*>(memory + kMemory.shared_item)};
  clear_padding<Format, kHeadSize, Body::kThreads>(memory + kMemory.stages,
                                                   Body::kPolicy.stages * 2 * kKeyBlock,
                                                   kMemory.key_pitch, kMemory.stage, kMemory.slot);
  queue.ask();
  while (true) {
    __syncthreads();
    const int index = queue.take();
    if (index < 0) break;
    const WorkItem item = args.plan.large_items[index / args.kv_heads];
    const Tile tile(args, item, index % args.kv_heads, kLargeRows);
    const KeyBlocks<Format, kHeadSize, Body::kThreads> blocks(
        args, tile.sequence, tile.head, page_slots, tile.first_key, tile.end_key);
    const int first_block = tile.first_block(), end_block = tile.end_block();
    if (threadIdx.x < (kAhead + 1) * 8) {
      const int block = first_block + threadIdx.x / 8;
      blocks.set_page(block, threadIdx.x % 8, blocks.page(block, threadIdx.x % 8));
    }
    for (int row = threadIdx.x; row < kLargeRows; row += Body::kThreads) {
      bounds[row] = tile.bounds(args, row);
    }
    __syncthreads();
    queue.ask();
    int load_stage = 0;
    for (int block = first_block; block < first_block + kAhead; ++block) {
      if (block < end_block) {
        blocks.load(block, start + kMemory.stages + load_stage * kMemory.stage, kMemory.key_pitch,
                    kMemory.slot);
      }
      commit_copies();
      ++load_stage;
    }
    load_queries<Format, kHeadSize, kLargeRows, Body::kThreads>(args, tile, memory + kMemory.query,
                                                                kMemory.query_pitch);

    typename Body::Sums sums;
    Body::clear(sums);
    SoftmaxState states[kRowTiles][2];
    const float factor = args.soft_cap > 0 ? 1.0f : args.score_factor;
    int stage = 0;
    bool first_split = true;
    for (int block = first_block; block < end_block; ++block) {
      wait_copies<kAhead - 1>();
      __syncthreads();
      if (block + kAhead < end_block) {
        blocks.load(block + kAhead, start + kMemory.stages + load_stage * kMemory.stage,
                    kMemory.key_pitch, kMemory.slot);
      }
      commit_copies();
      load_stage = load_stage == kAhead ? 0 : load_stage + 1;
      const int later_page = threadIdx.x < 8 ? blocks.page(block + kAhead + 1, threadIdx.x) : -1;

      const unsigned stage_start = start + kMemory.stages + stage * kMemory.stage;
      const float* scales = reinterpret_cast<const float*>(
          memory + kMemory.stages + stage * kMemory.stage + 2 * kMemory.slot);
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
      stage = stage == kAhead ? 0 : stage + 1;

      const bool last = block + 1 == end_block;
      if (last || (block + 1) % kSplitBlocks == 0) {
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          sum_lanes(states[i][0]);
          sum_lanes(states[i][1]);
        }
        if (!first_split || !last) {
          Body::fold(carry, carried_states, sums, states, first_split, last, first_row);
        }
        first_split = false;
      }
    }
    Body::write(args, tile, item, sums, states, first_row, lane);
  }
  queue.leave();
}

}  // namespace quire::cuda
