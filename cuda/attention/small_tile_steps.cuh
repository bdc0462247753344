#pragma once

#include "attention/merge_row.cuh"
#include "attention/tile.cuh"

namespace quire::cuda {

// The steps of a tile of 16 rows: decode, and short runs of new tokens. The four warps share the 64
// keys of a block for the scores, all do the softmax of all 16 rows, and share the dimensions of
// the output. Sums are made in the order of large_tile_kernel, bit for bit.
template <class Format, int kWidth>
struct SmallTileSteps {
  static constexpr int kWarps = kSmallWarps;
  static constexpr int kPairs = kWidth / 16;
  static constexpr int kOwnPairs = (kPairs + kWarps - 1) / kWarps;
  using Sums = float[kOwnPairs][2][4];

  // Of the split under way, and of those before it where one thread block folds them.
  struct State {
    Sums sums = {}, carried = {};
    SoftmaxState states[2], carried_states[2];
  };

  // Scores of the warp's 16 keys, to shared memory. `queries(step)` loads 16 rows of 16 dimensions,
  // `keys(step)` is the lane's address of those of the warp's keys.
  template <class Queries, class Keys>
  __device__ static void own_scores(const Queries& queries, const Keys& keys, float* scores,
                                    int warp, int lane) {
    float sums[2][4] = {};
#pragma unroll
    for (int step = 0; step < kPairs; ++step) {
      unsigned a[4], b[4];
      queries(a, step);
      Format::load_keys(b, keys(step));
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

  // sums += scores * values for the warp's pairs: warp, warp + 4, ... `values(step, i)`: the lane's
  // address of 16 keys and the warp's i-th pair.
  template <class Values>
  __device__ static void add_values(Sums& sums, const BlockScores& scores, const Values& values,
                                    int warp) {
#pragma unroll
    for (int step = 0; step < kKeyBlock / 16; ++step) {
      unsigned a[4];
      pack_scores<Format>(a, scores, step);
#pragma unroll
      for (int i = 0; i < kOwnPairs; ++i) {
        if (kPairs % kWarps != 0 && warp + i * kWarps >= kPairs) break;
        unsigned b[4];
        Format::load_values(b, values(step, i));
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

  // Begins with what the rows' prefix gave, as if that were earlier splits of this thread block.
  __device__ static void take_prefix(const AttentionArgs& args, const Tile& tile, State& state,
                                     int warp, int lane) {
    constexpr int kAtOnce = kOwnPairs <= 2 ? 2 : 1;
    for (int first = 0; first < tile.prefix.splits; first += kAtOnce) {
      Sums sums[kAtOnce] = {};
      SoftmaxState states[kAtOnce][2];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < tile.prefix.splits) {
          load_split(args, tile, first + i, sums[i], states[i], warp, lane);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < tile.prefix.splits) {
          fold(state.carried, state.carried_states, sums[i], states[i]);
        }
      }
    }
  }
  __device__ static void load_split(const AttentionArgs& args, const Tile& tile, int split,
                                    Sums& sums, SoftmaxState (&states)[2], int warp, int lane) {
    const int size = head_size<kWidth>(args);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (lane >> 2) + half * 8;
      if (row >= tile.rows) continue;
      const std::size_t place = prefix_row(args, tile.prefix, split, tile.head, row);
      const float2 state = __ldcg(args.partial_states + place);
      states[half].maximum = state.x;
      states[half].sum = state.y;
#pragma unroll
      for (int i = 0; i < kOwnPairs; ++i) {
        const int pair = warp + i * kWarps;
        if (pair >= kPairs) break;
        load_partial<Format, kWidth>(args.partial + place * size, size, sums[i], pair, half, lane);
      }
    }
  }

  __device__ static void write_output(const AttentionArgs& args, const Tile& tile, const Sums& sums,
                                      const SoftmaxState (&states)[2], int warp, int lane) {
    const int size = head_size<kWidth>(args);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (lane >> 2) + half * 8;
      if (row >= tile.rows) continue;
      const float factor = finish_row(args, states[half], tile.query_head(args, row));
      __nv_bfloat16* to = args.output + tile.place(args, row) * size;
#pragma unroll
      for (int i = 0; i < kOwnPairs; ++i) {
        const int pair = warp + i * kWarps;
        if (pair >= kPairs) break;
        store_output<Format, kWidth>(to, size, sums[i], pair, half, factor, lane);
      }
    }
  }

  // Waits for the other warps.
  __device__ static void sync_tile() {
    asm volatile("bar.sync 1, %0;" ::"n"(kWarps * 32) : "memory");
  }

  // The item that ends last of those of a cut tile merges their results. Called by all warps.
  __device__ static void merge_if_last(const AttentionArgs& args, const Tile& tile, int* last,
                                       int warp, int lane) {
    sync_tile();
    const MergeItem merge = args.plan.small_merges[tile.merge];
    int* ended = args.plan.ended + tile.merge * args.kv_heads + tile.head;
    if (threadIdx.x == 0) {
      __threadfence();  // of what all threads wrote before the barrier
      *last = atomicAdd(ended, 1) + 1 == merge.items;
      if (*last) *ended = 0;
    }
    sync_tile();
    if (*last == 0) return;
    __threadfence();
    for (int row = warp; row < merge.rows; row += kWarps) {
      merge_row<merge_groups(kWidth)>(args, merge, tile.head, row, lane);
    }
  }

  // Writes a split's result and starts afresh.
  __device__ static void write_partial(const AttentionArgs& args, const Tile& tile, int split,
                                       Sums& sums, SoftmaxState (&states)[2], int warp, int lane) {
    const int size = head_size<kWidth>(args);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (lane >> 2) + half * 8;
      if (row < tile.rows) {
        const std::size_t place = partial_row(args, tile, split, row);
#pragma unroll
        for (int i = 0; i < kOwnPairs; ++i) {
          const int pair = warp + i * kWarps;
          if (pair >= kPairs) break;
          store_partial<Format, kWidth>(args.partial + place * size, size, sums[i], pair, half,
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

  // Ends a split with its last block.
  __device__ static void end_block(const AttentionArgs& args, const Tile& tile, int block,
                                   State& state, int warp, int lane) {
    const bool ends_split = args.fold_splits && (block + 1) % kSplitBlocks == 0;
    if (!ends_split && block + 1 != tile.end_block()) return;
    sum_lanes(state.states[0]);
    sum_lanes(state.states[1]);
    if (tile.partial >= 0) {
      const int split =
          args.fold_splits ? (block * kKeyBlock - tile.item_first_key) / kSplitKeys : 0;
      write_partial(args, tile, split, state.sums, state.states, warp, lane);
    } else {
      fold(state.carried, state.carried_states, state.sums, state.states);
    }
  }

  __device__ static void end_tile(const AttentionArgs& args, const Tile& tile, const State& state,
                                  int* last, int warp, int lane) {
    if (tile.partial < 0) {
      write_output(args, tile, state.carried, state.carried_states, warp, lane);
    } else {
      merge_if_last(args, tile, last, warp, lane);
    }
  }
};

}  // namespace quire::cuda
