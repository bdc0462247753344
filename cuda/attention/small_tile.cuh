#pragma once

#include "attention/key_blocks.cuh"
#include "attention/small_tile_steps.cuh"
#include "base/dependent_kernel.cuh"

namespace quire::cuda {

// Small tiles by the instructions of sm_80: all threads bring the keys and values of the blocks to
// come, then compute one.
template <class Format, int kWidth>
struct SmallTile : SmallTileSteps<Format, kWidth> {
  static constexpr TilePolicy kPolicy = small_policy(kWidth, Format::kBytes);
  static constexpr int kThreads = kPolicy.warps * 32;
  static constexpr TileMemory kMemory =
      tile_memory(kSmallRows, kWidth, Format::kBytes, kPolicy.stages, Format::kScaled, true);
  // Where the keys and values of a block go.
  __device__ static unsigned stage_of(int block) {
    return kMemory.stages + static_cast<unsigned>(block) % kPolicy.stages * kMemory.stage;
  }
};

template <class Format, int kWidth>
__global__ void __launch_bounds__(SmallTile<Format, kWidth>::kThreads,
                                  SmallTile<Format, kWidth>::kPolicy.blocks_per_sm)
    small_tile_kernel(const __grid_constant__ AttentionArgs args) {
  using Body = SmallTile<Format, kWidth>;
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
      warp * 16 * kMemory.key_pitch + pitched_key<Format>(lane, kMemory.key_pitch);
  const unsigned value_lane = kMemory.slot + pitched_value<Format>(lane, kMemory.key_pitch);
  SharedQueue* shared = reinterpret_cast<SharedQueue*>(memory + kMemory.queue);
  const Tile& tile = shared->tile;
  const KeyBlocks<Format, kWidth, Body::kThreads> blocks{args, tile, page_slots};
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
    load_queries<Format, kWidth, kSmallRows, Body::kThreads>(args, tile, memory + kMemory.query,
                                                             kMemory.query_pitch);
    queue.fetch(asked);

    typename Body::State state;
    Body::take_prefix(args, tile, state, warp, lane);
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
      const auto queries = [&](unsigned(&to)[4], int step) {
        load_matrices(to, query_lane + step * 32);
      };
      const auto keys = [&](int step) {
        return stage_start + key_lane + step * 16 * Format::kBytes;
      };
      const auto values = [&](int step, int i) {
        return stage_start + value_lane +
               Format::value_place(step, warp + i * Body::kWarps, kMemory.key_pitch, kWidth);
      };
      Body::own_scores(queries, keys, scores_memory, warp, lane);
      __syncthreads();
      BlockScores scores;
      Body::all_scores(scores, scores_memory, lane);
      prepare_scores<Format>(args, tile, block, scores, scales, bounds, lane >> 2, lane);
      Body::rescale(state.sums, softmax_step(scores, factor, state.states, tile.rows > 8));
      if constexpr (Format::kScaled) scale_scores(scores, scales + kKeyBlock, lane);
      Body::add_values(state.sums, scores, values, warp);
      if (threadIdx.x < 8) blocks.set_page(block + kAhead + 1, threadIdx.x, later_page);

      Body::end_block(args, tile, block, state, warp, lane);
    }
    Body::end_tile(args, tile, state, &shared->last, warp, lane);
    wait_copies<0>();
    __syncthreads();
    queue.advance();
    __syncthreads();
  }
  if (!waited) wait_for_previous_kernel();
  queue.leave();
}

}  // namespace quire::cuda
