#pragma once

#include "attention/hopper/pipeline.cuh"
#include "attention/hopper/softmax.cuh"
#include "attention/hopper/tensor_map.h"
#include "attention/hopper/wgmma.cuh"

namespace quire::cuda::hopper {

// A warpgroup that computes 64 rows of a tile (FlashAttention-3, Shah et al. 2024). The product of
// the queries with the next keys and that of the weights with the values are started together,
// before the softmax of the next scores; nvcc 13.0 moves the wait for the latter in front of that
// softmax, so it runs beside the other warpgroups' products. With `ping_pong` these take turns in
// starting theirs.
template <class Shape, bool kSoftCap>
struct Consumer {
  using Pipe = Pipeline<Shape>;
  static constexpr ForwardPolicy kPolicy = Shape::kPolicy;
  static constexpr int kHeadSize = kPolicy.head_size;
  static constexpr int kBlockKeys = kPolicy.block_keys;
  static constexpr int kRowsBytes = kHeadSize / kBoxElements * kAtomBytes;  // of 8 keys or values
  static constexpr int kSteps = kBlockKeys / 16;
  // Named barriers, of each warpgroup one.
  static constexpr int kTurnBarrier = 1, kOwnBarrier = 1 + kPolicy.warpgroups;

  using Scores = float[kBlockKeys / 2];
  using Weights = unsigned[kSteps][4];
  using Sums = float[kHeadSize / 2];

  const ForwardArgs& args;
  Pipe pipe;
  int warpgroup;  // the same in all lanes, known to the compiler as such
  int thread;     // of the warpgroup

  __device__ int lane() const { return thread % 32; }
  __device__ int row(int half) const {
    return warpgroup * 64 + thread / 32 * 16 + lane() / 4 + half * 8;
  }

  __device__ void release(typename Pipe::Kind kind, int stage) const {
    if (lane() == 0) MemoryBarrier::arrive(pipe.released(kind, stage));
  }
  __device__ void wait_for_turn() const {
    if constexpr (kPolicy.ping_pong) sync_named(kTurnBarrier + warpgroup, 256);
  }
  __device__ void pass_turn() const {
    if constexpr (kPolicy.ping_pong) {
      const int next = warpgroup + 1 == kPolicy.warpgroups ? 0 : warpgroup + 1;
      arrive_named(kTurnBarrier + next, 256);
    }
  }

  __device__ void start_scores(Scores& scores, int query_stage, int stage) const {
    const unsigned long long queries =
        rows_descriptor(pipe.query(query_stage) + warpgroup * 64 * 128, kAtomBytes);
    const unsigned long long keys = rows_descriptor(pipe.keys(stage), kRowsBytes);
    hold(scores);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadSize / 16; ++step) {
      const int part = step / 4, within = step % 4 * 32;
      const unsigned long long a = queries + ((part * kPolicy.rows() * 128 + within) >> 4);
      const unsigned long long b = keys + ((part * kAtomBytes + within) >> 4);
      if (step == 0) {
        multiply_rows<0>(scores, a, b);
      } else {
        multiply_rows<1>(scores, a, b);
      }
    }
    commit_products();
  }

  __device__ void start_sums(Sums& sums, Weights& weights, int stage) const {
    const unsigned long long values = columns_descriptor(pipe.values(stage), kRowsBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) hold(weights[step]);
    hold(sums);
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_columns(sums, weights[step], values + (step * 2 * kRowsBytes >> 4));
    }
    commit_products();
  }

  __device__ static void pack(Weights& weights, const Scores& scores) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weights[step][i] = pack_pair(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
      }
    }
  }

  __device__ static void rescale(Sums& sums, float2 factors) {
    if (kPolicy.lazy_rescale && !__any_sync(0xffffffffu, factors.x != 1.0f || factors.y != 1.0f)) {
      return;
    }
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; i += 4) {
      sums[i] *= factors.x;
      sums[i + 1] *= factors.x;
      sums[i + 2] *= factors.y;
      sums[i + 3] *= factors.y;
    }
  }

  // Keys outside the sequence may hold anything, and 0 times anything is not 0: clears the values
  // of rows outside [begin, end). The warpgroups write the same.
  __device__ void clear_values(int stage, int begin, int end) const {
    constexpr int kChunks = kBlockKeys * kHeadSize * 2 / 16;
    for (int i = thread; i < kChunks; i += 128) {
      const int row = i / kHeadSize * 8 + i / 8 % 8;
      if (row >= begin && row < end) continue;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(pipe.values(stage) + i * 16),
                   "r"(0)
                   : "memory");
    }
    publish_shared_writes();
    sync_named(kOwnBarrier + warpgroup, 128);
  }

  struct State {
    Scores scores;
    Weights weights;
    Sums sums;
    SoftmaxRows softmax;
    int first_key[2], end_key[2];  // seen by the rows
    int uses;                      // of the rings of keys and values, before this block
  };

  // The softmax of the block's scores; `masked`: some row does not see all its keys.
  template <bool kMasked>
  __device__ float2 softmax(State& state, int block) const {
    if constexpr (kSoftCap) cap_scores(state.scores, args.soft_cap_inner, args.soft_cap);
    if constexpr (kMasked) {
      mask_scores(state.scores, state.first_key, state.end_key,
                  block * kBlockKeys + lane() % 4 * 2);
    }
    return state.softmax.template step<kPolicy.lazy_rescale>(state.scores,
                                                             kSoftCap ? 1.0f : args.score_factor);
  }

  // ptxas moves the wait for the sums up before the softmax, which is to run beside their products.
  // A store that never happens, but depends on all exponentials, stands in its way.
  __device__ void keep_before_wait(const SoftmaxRows& softmax) const {
    const float sum = softmax.sum[0] + softmax.sum[1];
    if (sum < 0) asm volatile("st.shared.f32 [%0], %1;" ::"r"(pipe.unused()), "f"(sum) : "memory");
  }

  // Values of a block that is masked, once they are there.
  __device__ void mend_values(const Tile& tile, const TileBlocks& blocks, int block,
                              const RingPlace<kStages>& place) const {
    const int first = block * kBlockKeys;
    if (first >= blocks.first_key && first + kBlockKeys <= tile.keys) return;
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, place.stage), place.parity);
    clear_values(place.stage, blocks.first_key - first, tile.keys - first);
  }

  template <bool kMasked>
  __device__ void step(State& state, const Tile& tile, const TileBlocks& blocks, int block,
                       int query_stage) const {
    const RingPlace<kStages> earlier(state.uses);
    const RingPlace<kStages> place(++state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    wait_for_turn();
    start_scores(state.scores, query_stage, place.stage);
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, earlier.stage), earlier.parity);
    start_sums(state.sums, state.weights, earlier.stage);
    pass_turn();
    wait_products<1>();
    hold(state.scores);
    release(Pipe::kKeys, place.stage);
    const float2 factors = softmax<kMasked>(state, block);
    if constexpr (kPolicy.overlap) keep_before_wait(state.softmax);
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, earlier.stage);
    if constexpr (kMasked) mend_values(tile, blocks, block, place);
    pack(state.weights, state.scores);
    rescale(state.sums, factors);
  }

  __device__ void compute(State& state, const Tile& tile, int query_stage) const {
    const TileBlocks blocks(args, tile, kBlockKeys);
    state.softmax = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = tile.first_position + row(half);
      state.end_key[half] = args.causal ? min(position + 1, tile.keys) : tile.keys;
      state.first_key[half] = args.window > 0 ? max(0, position + 1 - args.window) : 0;
    }
#pragma unroll
    for (float& sum : state.sums) sum = 0;

    int block = blocks.end - 1;
    const RingPlace<kStages> place(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    start_scores(state.scores, query_stage, place.stage);
    wait_products<0>();
    hold(state.scores);
    release(Pipe::kKeys, place.stage);
    softmax<true>(state, block);
    mend_values(tile, blocks, block, place);
    pack(state.weights, state.scores);
    --block;
    for (; block >= blocks.begin && block >= blocks.full_end; --block) {
      step<true>(state, tile, blocks, block, query_stage);
    }
    for (; block >= blocks.begin && block >= blocks.full_begin; --block) {
      step<false>(state, tile, blocks, block, query_stage);
    }
    for (; block >= blocks.begin; --block) step<true>(state, tile, blocks, block, query_stage);
    release(Pipe::kQuery, query_stage);

    const RingPlace<kStages> last(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, last.stage), last.parity);
    start_sums(state.sums, state.weights, last.stage);
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, last.stage);
    ++state.uses;
  }

  __device__ void store(State& state, const Tile& tile) const {
    constexpr float kLog2E = 1.4426950408889634f;
    const float factor = kSoftCap ? 1.0f : args.score_factor;
    state.softmax.finish();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = state.softmax.sum[half];
      const float base = state.softmax.base(half, factor);
      if (args.sinks != nullptr) sum += exp2_fast(args.sinks[tile.head] * kLog2E - base);
      const float scale = sum > 0 ? 1.0f / sum : 0.0f;
      const bool real = row(half) < tile.rows;
      const int pass_row = tile.first_row + row(half);
      if (args.log_sum_exp != nullptr && real && lane() % 4 == 0) {
        args.log_sum_exp[static_cast<std::size_t>(tile.head) * args.rows + pass_row] =
            sum > 0 ? (base + __log2f(sum)) / kLog2E : kNoScore;
      }
      __nv_bfloat16* to =
          args.output + (static_cast<std::size_t>(pass_row) * args.heads + tile.head) * kHeadSize +
          lane() % 4 * 8;
#pragma unroll
      for (int i = 0; i < kHeadSize / 2; i += 16) {
        unsigned four[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          four[k] = pack_pair(state.sums[i + 4 * k + 2 * half] * scale,
                              state.sums[i + 4 * k + 2 * half + 1] * scale);
        }
        transpose_quad(four, lane());
        if (real)
          *reinterpret_cast<uint4*>(to + i * 2) = make_uint4(four[0], four[1], four[2], four[3]);
      }
    }
  }

  __device__ void run() const {
    State state;
    state.uses = 0;
    if (warpgroup == 0 && kPolicy.ping_pong) arrive_named(kTurnBarrier, 256);
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      MemoryBarrier::wait(pipe.arrived(Pipe::kQuery, place.stage), place.parity);
      const Tile tile = pipe.load_tile(place.stage);
      if (tile.rows == 0) return;
      compute(state, tile, place.stage);
      store(state, tile);
    }
  }
};

}  // namespace quire::cuda::hopper
