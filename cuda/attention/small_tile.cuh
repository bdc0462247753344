#pragma once

#include "attention/key_blocks.cuh"
#include "attention/merge_row.cuh"
#include "attention/tile.cuh"
#include "base/dependent_kernel.cuh"

namespace quire::cuda {

// Tiles of 16 rows: decode, and short runs of new tokens. The four warps share the 64 keys of a
// block for the scores, all do the softmax of all 16 rows, and share the dimensions of the output.
// Sums are made in the order of large_tile_kernel, bit for bit.
template <class Format, int kHeadSize>
struct SmallTile {
  static constexpr TilePolicy kPolicy = small_policy(kHeadSize, Format::kBytes);
  static constexpr int kThreads = kPolicy.warps * 32;
  static constexpr TileMemory kMemory =
      tile_memory(kSmallRows, kHeadSize, Format::kBytes, kPolicy.stages, Format::kScaled, true);
  // Where the keys and values of a block go.
  __device__ static unsigned stage_of(int block) {
    return kMemory.stages + static_cast<unsigned>(block) % kPolicy.stages * kMemory.stage;
  }

  static constexpr int kPairs = padded_width(kHeadSize) / 16;
  static constexpr int kOwnPairs = (kPairs + kPolicy.warps - 1) / kPolicy.warps;
  using Sums = float[kOwnPairs][2][4];

  // Scores of the warp's 16 keys, to shared memory.
  __device__ static void own_scores(unsigned queries, unsigned keys, float* scores, int warp,
                                    int lane) {
    float sums[2][4] = {};
#pragma unroll
    for (int step = 0; step < kPairs; ++step) {
      unsigned a[4], b[4];
      load_matrices(a, queries + step * 32);
      Format::load_keys(b, keys + step * 16 * Format::kBytes);
      multiply(sums[0], a, b[0], b[1], typename Format::Operand{});
      multiply(sums[1], a, b[2], b[3], typename Format::Operand{});
    }
    float* to = scores + (lane >> 2) * kScorePitch + warp * 16 + (lane & 3) * 2;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      *reinterpret_cast<float2*>(to + tile * 8) = make_float2(sums[tile][0], sums[tile][1]);
      *reinterpret_cast<float2*>(to + tile * 8 + 8 * kScorePitch) =
          make_float2(sums[tile][2], sums[tile][3]);
    }
  }

  __device__ static void all_scores(BlockScores& to, const float* scores, int lane) {
    const float* from = scores + (lane >> 2) * kScorePitch + (lane & 3) * 2;
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float2 top = *reinterpret_cast<const float2*>(from + tile * 8);
      const float2 bottom = *reinterpret_cast<const float2*>(from + tile * 8 + 8 * kScorePitch);
      to[tile][0] = top.x;
      to[tile][1] = top.y;
      to[tile][2] = bottom.x;
      to[tile][3] = bottom.y;
    }
  }

  // sums += scores * values for the warp's pairs: warp, warp + 4, ...
  __device__ static void add_values(Sums& sums, const BlockScores& scores, unsigned values,
                                    int warp) {
#pragma unroll
    for (int step = 0; step < kKeyBlock / 16; ++step) {
      unsigned a[4];
      pack_scores<Format>(a, scores, step);
#pragma unroll
      for (int i = 0; i < kOwnPairs; ++i) {
        const int pair = warp + i * kPolicy.warps;
        if (kPairs % kPolicy.warps != 0 && pair >= kPairs) break;
        unsigned b[4];
        Format::load_values(b, values + Format::value_place(step, pair, kMemory.key_pitch,
                                                            padded_width(kHeadSize)));
        multiply(sums[i][0], a, b[0], b[1], typename Format::Operand{});
        multiply(sums[i][1], a, b[2], b[3], typename Format::Operand{});
      }
    }
  }

  __device__ static void rescale(Sums& sums, float2 factors) {
    if (!__any_sync(0xffffffffu, factors.x != 1.0f || factors.y != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kOwnPairs; ++i) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        sums[i][tile][0] *= factors.x;
        sums[i][tile][1] *= factors.x;
        sums[i][tile][2] *= factors.y;
        sums[i][tile][3] *= factors.y;
      }
    }
  }

  // Folds the finished split into what earlier splits gave.
  __device__ static void fold(Sums& carried, SoftmaxState (&carried_states)[2], Sums& sums,
                              SoftmaxState (&states)[2]) {
    const MergeFactors top = attention::merge(carried_states[0], states[0], BaseTwo{});
    const MergeFactors bottom = attention::merge(carried_states[1], states[1], BaseTwo{});
#pragma unroll
    for (int i = 0; i < kOwnPairs; ++i) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& left = carried[i][tile][e];
          left = merge_sum(left, sums[i][tile][e], e < 2 ? top : bottom);
          sums[i][tile][e] = 0;
        }
      }
    }
    states[0] = {};
    states[1] = {};
  }

  __device__ static void write_output(const AttentionArgs& args, const Tile& tile, const Sums& sums,
                                      const SoftmaxState (&states)[2], int warp, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (lane >> 2) + half * 8;
      if (row >= tile.rows) continue;
      const float factor = finish_row(args, states[half], tile.query_head(args, row));
      __nv_bfloat16* to = args.output + tile.place(args, row) * kHeadSize;
#pragma unroll
      for (int i = 0; i < kOwnPairs; ++i) {
        const int pair = warp + i * kPolicy.warps;
        if (pair >= kPairs) break;
        store_output<Format, kHeadSize>(to, sums[i], pair, half, factor, lane);
      }
    }
  }

  // The item that ends last of those of a cut tile merges their results. Called by all threads.
  __device__ static void merge_if_last(const AttentionArgs& args, const Tile& tile, int* last,
                                       int warp, int lane) {
    __threadfence();
    __syncthreads();
    const MergeItem merge = args.plan.small_merges[tile.merge];
    int* ended = args.plan.ended + tile.merge * args.kv_heads + tile.head;
    if (threadIdx.x == 0) {
      *last = atomicAdd(ended, 1) + 1 == merge.items;
      if (*last) *ended = 0;
    }
    __syncthreads();
    if (*last == 0) return;
    __threadfence();
    for (int row = warp; row < merge.rows; row += kPolicy.warps) {
      merge_row<kHeadSize>(args, merge, tile.head, row, lane);
    }
  }

  // Writes a split's result and starts afresh.
  __device__ static void write_partial(const AttentionArgs& args, const Tile& tile, int split,
                                       Sums& sums, SoftmaxState (&states)[2], int warp, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (lane >> 2) + half * 8;
      if (row < tile.rows) {
        const std::size_t place = partial_row(args, tile, split, row);
#pragma unroll
        for (int i = 0; i < kOwnPairs; ++i) {
          const int pair = warp + i * kPolicy.warps;
          if (pair >= kPairs) break;
          store_partial<Format, kHeadSize>(args.partial + place * kHeadSize, sums[i], pair, half,
                                           lane);
        }
        if (warp == 0 && (lane & 3) == 0) {
          args.partial_states[place] = make_float2(states[half].maximum, states[half].sum);
        }
      }
      states[half] = {};
    }
#pragma unroll
    for (int i = 0; i < kOwnPairs; ++i) {
#pragma unroll
      for (int e = 0; e < 8; ++e) sums[i][e / 4][e % 4] = 0;
    }
  }
};

template <class Format, int kHeadSize>
__global__ void __launch_bounds__(SmallTile<Format, kHeadSize>::kThreads,
                                  SmallTile<Format, kHeadSize>::kPolicy.blocks_per_sm)
    small_tile_kernel(const __grid_constant__ AttentionArgs args) {
  using Body = SmallTile<Format, kHeadSize>;
  constexpr TileMemory kMemory = Body::kMemory;
  constexpr int kAhead = Body::kPolicy.stages - 1;
  extern __shared__ __align__(16) std::byte memory[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned start = shared_address(memory);
  int2* bounds = reinterpret_cast<int2*>(memory + kMemory.bounds);
  float* scores_memory = reinterpret_cast<float*>(memory + kMemory.scores);
  const std::byte** page_slots = reinterpret_cast<const std::byte**>(memory + kMemory.pages);
  const unsigned query_lane =
      start + kMemory.query + (lane & 15) * kMemory.query_pitch + (lane >> 4) * 16;
  const unsigned key_lane =
      warp * 16 * kMemory.key_pitch + Format::key_lane(lane, kMemory.key_pitch);
  const unsigned value_lane = kMemory.slot + Format::value_lane(lane, kMemory.key_pitch);
  clear_padding<Format, kHeadSize, Body::kThreads>(memory + kMemory.stages,
                                                   Body::kPolicy.stages * 2 * kKeyBlock,
                                                   kMemory.key_pitch, kMemory.stage, kMemory.slot);
  SharedQueue* shared = reinterpret_cast<SharedQueue*>(memory + kMemory.queue);
  const Tile& tile = shared->tile;
  const KeyBlocks<Format, kHeadSize, Body::kThreads> blocks{args, tile, page_slots};
  PlanCounters* counters = args.plan.counters;
  ItemQueue queue(args, args.plan.small_items, &counters->small_next, &counters->small_done,
                  shared);
  bool waited = !args.plan_is_old;
  if (waited) {
    wait_for_previous_kernel();
    allow_next_kernel();
  }
  queue.start(counters->small_items);
  __syncthreads();
  while (tile.rows > 0) {
    const int first_block = tile.first_block(), end_block = tile.end_block();
    if (threadIdx.x < (kAhead + 1) * 8) {
      const int block = first_block + threadIdx.x / 8;
      blocks.set_page(block, threadIdx.x % 8, blocks.page(block, threadIdx.x % 8));
    }
    if (threadIdx.x < kSmallRows) bounds[threadIdx.x] = tile.bounds(args, threadIdx.x);
    __syncthreads();
    // Blocks before `new_block` are of earlier passes.
    int new_block = first_block;
    if (!waited) {
      new_block = max(first_block,
                      min(tile.first_position / kKeyBlock, min(first_block + kAhead, end_block)));
      for (int block = first_block; block < new_block; ++block) {
        blocks.template load<false>(block, start + Body::stage_of(block), kMemory.key_pitch,
                                    kMemory.slot);
      }
      wait_for_previous_kernel();
      allow_next_kernel();
      waited = true;
    }
    const int asked = queue.ask();
    for (int block = first_block; block < first_block + kAhead; ++block) {
      if (block >= new_block && block < end_block) {
        blocks.template load<false>(block, start + Body::stage_of(block), kMemory.key_pitch,
                                    kMemory.slot);
      }
      commit_copies();
    }
    load_queries<Format, kHeadSize, kSmallRows, Body::kThreads>(args, tile, memory + kMemory.query,
                                                                kMemory.query_pitch);
    queue.fetch(asked);

    typename Body::Sums sums = {}, carried = {};
    SoftmaxState states[2], carried_states[2];
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
      Body::own_scores(query_lane, stage_start + key_lane, scores_memory, warp, lane);
      __syncthreads();
      BlockScores scores;
      Body::all_scores(scores, scores_memory, lane);
      prepare_scores<Format>(args, tile, block, scores, scales, bounds, lane >> 2, lane);
      Body::rescale(sums, softmax_step(scores, factor, states, tile.rows > 8));
      if constexpr (Format::kScaled) scale_scores(scores, scales + kKeyBlock, lane);
      Body::add_values(sums, scores, stage_start + value_lane, warp);
      if (threadIdx.x < 8) blocks.set_page(block + kAhead + 1, threadIdx.x, later_page);

      if (block + 1 == end_block || (args.fold_splits && (block + 1) % kSplitBlocks == 0)) {
        sum_lanes(states[0]);
        sum_lanes(states[1]);
        if (tile.partial >= 0) {
          const int split =
              args.fold_splits ? (block * kKeyBlock - tile.item_first_key) / kSplitKeys : 0;
          Body::write_partial(args, tile, split, sums, states, warp, lane);
        } else {
          Body::fold(carried, carried_states, sums, states);
        }
      }
    }
    if (tile.partial < 0) {
      Body::write_output(args, tile, carried, carried_states, warp, lane);
    } else {
      Body::merge_if_last(args, tile, &shared->last, warp, lane);
    }
    wait_copies<0>();
    __syncthreads();
    queue.advance();
    __syncthreads();
  }
  if (!waited) wait_for_previous_kernel();
  queue.leave();
}

}  // namespace quire::cuda
