#pragma once

#include <type_traits>

#include "attention/hopper/consumer_rows.cuh"

namespace quire::cuda::hopper {

// A warpgroup that computes 64 rows of a tile (FlashAttention-3, Shah et al. 2024). The product of
// the queries with the next keys and that of the weights with the values are started together,
// before the softmax of the next scores; nvcc 13.0 moves the wait for the latter in front of that
// softmax, so it runs beside the other warpgroups' products. With `ping_pong` these take turns in
// starting theirs.
//
// Element is the type of keys and values; queries come in bf16.
template <class Shape, class Element, bool kSoftCap>
struct Consumer : ConsumerRows<Shape> {
  using Rows = ConsumerRows<Shape>;
  using Pipe = typename Rows::Pipe;
  using Place = typename Pipe::Place;
  using Sums = typename Rows::Sums;
  using Rows::args;
  using Rows::kHeadSize;
  using Rows::kPolicy;
  using Rows::lane;
  using Rows::pass_turn;
  using Rows::pipe;
  using Rows::release;
  using Rows::thread;
  using Rows::wait_for_turn;
  using Rows::warpgroup;
  static constexpr int kBlockKeys = kPolicy.block_keys;
  static constexpr int kRowsBytes = 8 * kHeadSize * 2;  // of 8 keys or values
  static constexpr int kRow = kPolicy.key_row();        // as long as that of queries
  static constexpr int kSteps = kBlockKeys / 16;

  using Scores = float[kBlockKeys / 2];
  using Weights = unsigned[kSteps][4];

  // The warpgroup's queries from bf16 to float16, whose largest numbers stand for those beyond.
  __device__ void convert_queries(int stage) const {
    constexpr int kChunks = 64 * kRow / 16;
#pragma unroll
    for (int part = 0; part < kHeadSize * 2 / kRow; ++part) {
      const unsigned start = pipe.query(stage) + (part * kPolicy.rows() + warpgroup * 64) * kRow;
#pragma unroll
      for (int i = 0; i < kChunks; i += 128) {
        unsigned pairs[4];
        load_shared(pairs, start + (i + thread) * 16);
#pragma unroll
        for (unsigned& pair : pairs) {
          pair = pack_pair(clamp_half(low_half(pair)), clamp_half(high_half(pair)), __half{});
        }
        store_shared(start + (i + thread) * 16, pairs);
      }
    }
    publish_shared_writes();
    Rows::sync_warpgroup();
  }

  __device__ void start_scores(Scores& scores, int query_stage, int stage) const {
    const unsigned long long queries =
        rows_descriptor<kRow>(pipe.query(query_stage) + warpgroup * 64 * kRow, 8 * kRow);
    const unsigned long long keys = rows_descriptor<kRow>(pipe.keys(stage), kRowsBytes);
    hold(scores);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadSize / 16; ++step) {
      const int part = step * 32 / kRow, within = step * 32 % kRow;
      const unsigned long long a = queries + ((part * kPolicy.rows() * kRow + within) >> 4);
      const unsigned long long b = keys + ((part * 8 * kRow + within) >> 4);
      if (step == 0) {
        multiply_rows<Element, 0>(scores, a, b);
      } else {
        multiply_rows<Element, 1>(scores, a, b);
      }
    }
    commit_products();
  }

  __device__ void start_sums(Sums& sums, Weights& weights, int stage) const {
    const unsigned long long values =
        columns_descriptor<kRow>(pipe.values(stage), kRowsBytes, 8 * kRow);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) hold(weights[step]);
    hold(sums);
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_registers<Element, 1>(sums, weights[step], values + (step * 2 * kRowsBytes >> 4));
    }
    commit_products();
  }

  __device__ static void pack(Weights& weights, const Scores& scores) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weights[step][i] =
            pack_pair(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1], Element{});
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
      const int row = i / kHeadSize * 8 + i / (kRow / 16) % 8;
      if (row >= begin && row < end) continue;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(pipe.values(stage) + i * 16),
                   "r"(0)
                   : "memory");
    }
    publish_shared_writes();
    Rows::sync_warpgroup();
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

  // Values of a block that is masked, once they are there.
  __device__ void mend_values(const Tile& tile, int block, const Place& place) const {
    const int begin = Pipe::blocks(args, tile).first_key - block * kBlockKeys;
    const int end = tile.keys - block * kBlockKeys;
    if (begin <= 0 && end >= kBlockKeys) return;
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, place.stage), place.parity);
    clear_values(place.stage, begin, end);
  }

  template <bool kMasked>
  __device__ void step(State& state, const Tile& tile, int block, int query_stage) const {
    const Place earlier(state.uses);
    const Place place(++state.uses);
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
    if constexpr (kPolicy.overlap) {
      Rows::keep_before_wait(state.softmax.sum[0] + state.softmax.sum[1]);
    }
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, earlier.stage);
    if constexpr (kMasked) mend_values(tile, block, place);
    pack(state.weights, state.scores);
    rescale(state.sums, factors);
  }

  __device__ void compute(State& state, const Tile& tile, int query_stage) const {
    const TileBlocks all = Pipe::blocks(args, tile), blocks = Rows::own_blocks(tile);
    state.softmax = {};
    Rows::find_keys(tile, state.first_key, state.end_key);
#pragma unroll
    for (float& sum : state.sums) sum = 0;

    Rows::pass_over(all.end - blocks.end, true, state.uses);
    int block = blocks.end - 1;
    const Place place(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    if (blocks.end < all.end) wait_for_turn();
    start_scores(state.scores, query_stage, place.stage);
    if (blocks.end < all.end) pass_turn();
    wait_products<0>();
    hold(state.scores);
    release(Pipe::kKeys, place.stage);
    softmax<true>(state, block);
    mend_values(tile, block, place);
    pack(state.weights, state.scores);
    --block;
    for (; block >= blocks.begin && block >= blocks.full_end; --block) {
      step<true>(state, tile, block, query_stage);
    }
    for (; block >= blocks.begin && block >= blocks.full_begin; --block) {
      step<false>(state, tile, block, query_stage);
    }
    for (; block >= blocks.begin; --block) step<true>(state, tile, block, query_stage);
    release(Pipe::kQuery, query_stage);

    const Place last(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, last.stage), last.parity);
    start_sums(state.sums, state.weights, last.stage);
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, last.stage);
    ++state.uses;
    Rows::pass_over(blocks.begin - all.begin, false, state.uses);
  }

  __device__ void store(State& state, const Tile& tile) const {
    const float factor = kSoftCap ? 1.0f : args.score_factor;
    state.softmax.finish();
    const float bases[] = {state.softmax.base(0, factor), state.softmax.base(1, factor)};
    if constexpr (kPolicy.prefix) {
      Rows::store_partial(state.sums, bases, state.softmax.sum, tile);
    } else {
      Rows::store(state.sums, bases, state.softmax.sum, tile);
    }
  }

  __device__ void run() const {
    State state;
    state.uses = 0;
    Rows::first_turn();
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      MemoryBarrier::wait(pipe.arrived(Pipe::kQuery, place.stage), place.parity);
      const Tile tile = pipe.load_tile(place.stage);
      if (tile.rows == 0) return;
      if (Rows::first_row() >= tile.rows) {
        Rows::pass_over(tile, place.stage, state.uses);
        continue;
      }
      if constexpr (std::is_same_v<Element, __half>) convert_queries(place.stage);
      compute(state, tile, place.stage);
      store(state, tile);
    }
  }
};

}  // namespace quire::cuda::hopper
