#pragma once

#include "attention/hopper/fp8_queries.cuh"
#include "attention/hopper/fp8_softmax.cuh"

namespace quire::cuda::hopper {

// Consumer for keys and values in fp8 (e4m3).
//
// The tensor cores keep few bits of sums of 8-bit products, so every kSumBlocks blocks the sums are
// put away, added in float32 to those in shared memory, and start anew.
//
// Registers of scores become the first operand of the product with the values as they are, because
// values lie in the order of fp8_slot.
template <class Shape, bool kSoftCap>
struct Fp8Consumer : Fp8Softmax<Shape, kSoftCap> {
  using Softmax = Fp8Softmax<Shape, kSoftCap>;
  using Queries = Fp8Queries<Shape>;
  using Rows = ConsumerRows<Shape>;
  using Pipe = typename Rows::Pipe;
  using Place = typename Pipe::Place;
  using Sums = typename Rows::Sums;
  using BlockScales = typename Softmax::BlockScales;
  using Scores = typename Softmax::Scores;
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
  using Softmax::kBlockKeys;

  using Element = __nv_fp8_e4m3;
  static constexpr int kSteps = kBlockKeys / 32;
  static_assert(kBlockKeys % 32 == 0 && (kHeadSize == 64 || kHeadSize % 128 == 0));
  static constexpr int kRow = Queries::kRow;  // bytes of a row of keys, and of rounded queries
  static constexpr unsigned kSumBlocks = 8;

  using Weights = unsigned[kSteps][4];

  struct State : Softmax::SoftmaxState {
    Weights weights;
    Sums sums;          // since others were put away
    float rescale[2];   // what those are to be multiplied with
    int uses;           // of the rings of keys and values, before this block
    bool keys_arrived;  // of the next block
  };

  __device__ Queries queries() const { return {*this}; }

  __device__ void start_scores(Scores& scores, int stage) const {
    const unsigned long long queries = rows_descriptor<kRow>(this->queries().own_codes(), 8 * kRow);
    const unsigned long long keys = rows_descriptor<kRow>(pipe.keys(stage), 8 * kHeadSize);
    hold(scores);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadSize / 32; ++step) {
      const int part = step * 32 / kRow, within = step * 32 % kRow;
      const unsigned long long a = queries + ((part * Queries::kPartBytes + within) >> 4);
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
    const unsigned long long values = matrices_descriptor(pipe.values(stage), 16 * kHeadSize);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) hold(weights[step]);
    hold(sums);
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_registers<Element, 1>(sums, weights[step], values + (step * 32 * kHeadSize >> 4));
    }
    commit_products();
  }

  // Weights to e4m3: of 32 keys, four tiles of 8, each register has two tiles of one row.
  __device__ static void pack(Weights& weights, const Scores& scores) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = 16 * step + i / 2 * 8 + i % 2 * 2;
        weights[step][i] =
            pack_codes(scores[first], scores[first + 1], scores[first + 4], scores[first + 5]);
      }
    }
  }

  // Where the thread's sums i, i + 1, i + 2, i + 3 are put away.
  __device__ unsigned place_of_sums(int i) const {
    return pipe.sums() + ((i / 4 * kPolicy.warpgroups + warpgroup) * 128 + thread) * 16;
  }

  // The thread's sums i ... i + 3 with those that were put away.
  __device__ float4 whole_sums(const State& state, int i) const {
    const float4 earlier = load_shared_four(place_of_sums(i));
    return make_float4(__fmaf_rn(earlier.x, state.rescale[0], state.sums[i]),
                       __fmaf_rn(earlier.y, state.rescale[0], state.sums[i + 1]),
                       __fmaf_rn(earlier.z, state.rescale[1], state.sums[i + 2]),
                       __fmaf_rn(earlier.w, state.rescale[1], state.sums[i + 3]));
  }

  __device__ void put_away(State& state) const {
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; i += 4) {
      store_shared(place_of_sums(i), whole_sums(state, i));
      state.sums[i] = state.sums[i + 1] = state.sums[i + 2] = state.sums[i + 3] = 0;
    }
    state.rescale[0] = state.rescale[1] = 1;
  }

  __device__ static void rescale(State& state, float2 factors) {
    if (!__any_sync(0xffffffffu, factors.x != 1.0f || factors.y != 1.0f)) return;
    state.rescale[0] *= factors.x;
    state.rescale[1] *= factors.y;
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; i += 4) {
      state.sums[i] *= factors.x;
      state.sums[i + 1] *= factors.x;
      state.sums[i + 2] *= factors.y;
      state.sums[i + 3] *= factors.y;
    }
  }

  // Clears values of keys outside the tile's, which may hold anything: 0 times NaN is not 0. The
  // warpgroups write the same. Unwanted boxes were not brought.
  __device__ void mend_values(int query_stage, int block, const Place& place) const {
    const TileBlocks blocks(args, pipe.load_tile(query_stage), kBlockKeys);
    const int begin = blocks.first_key - block * kBlockKeys;
    const int end = blocks.end_key - block * kBlockKeys;
    if (begin <= 0 && end >= kBlockKeys) return;
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, place.stage), place.parity);
    for (int i = thread; i < kBlockKeys / 16 * kHeadSize; i += 128) {
      const int box = i / kHeadSize * 16;
      if (box >= begin && box + 16 <= end) continue;
      const unsigned at = pipe.values(place.stage) + i * 16;
      unsigned four[4];
      load_shared(four, at);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unsigned kept = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int token = box + 2 * k + e / 2 * 8 + e % 2;  // of byte 4 k + e
          if (token >= begin && token < end) kept |= 0xffu << (8 * e);
        }
        four[k] &= kept;
      }
      store_shared(at, four);
    }
    publish_shared_writes();
    Rows::sync_warpgroup();
  }

  // The scores of this block and the sums of the one before, whose weights are at hand, are started
  // together; the softmax runs beside the latter.
  template <bool kMasked>
  __device__ void step(State& state, int block, int query_stage) const {
    const Place earlier(state.uses);
    const Place place(++state.uses);
    const Place later(state.uses + 1);
    if (!state.keys_arrived) {
      MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    }
    const bool values_arrived =
        MemoryBarrier::ended(pipe.arrived(Pipe::kValues, earlier.stage), earlier.parity);
    const BlockScales scales = Softmax::block_scales(place.stage);
    wait_for_turn();
    start_scores(state.scores, place.stage);
    if (!values_arrived) {
      MemoryBarrier::wait(pipe.arrived(Pipe::kValues, earlier.stage), earlier.parity);
    }
    start_sums(state.sums, state.weights, earlier.stage);
    pass_turn();
    wait_products<1>();
    hold(state.scores);
    release(Pipe::kKeys, place.stage);
    const float2 factors =
        Softmax::template softmax<kMasked>(state, scales, block, place.stage, query_stage);
    state.keys_arrived = MemoryBarrier::ended(pipe.arrived(Pipe::kKeys, later.stage), later.parity);
    if constexpr (kPolicy.overlap) Rows::keep_before_wait(state.sum[0] + state.sum[1]);
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, earlier.stage);
    if constexpr (kMasked) mend_values(query_stage, block, place);
    pack(state.weights, state.scores);
    if ((block + 1u) % kSumBlocks == 0) put_away(state);
    rescale(state, factors);
  }

  // What comes before the first step, and after the last.
  __device__ void first_scores(State& state, int block, int query_stage) const {
    const Place place(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    const BlockScales scales = Softmax::block_scales(place.stage);
    start_scores(state.scores, place.stage);
    wait_products<0>();
    hold(state.scores);
    release(Pipe::kKeys, place.stage);
    Softmax::template softmax<true>(state, scales, block, place.stage, query_stage);
    mend_values(query_stage, block, place);
    pack(state.weights, state.scores);
    state.keys_arrived = false;
  }
  __device__ void last_sums(State& state) const {
    const Place last(state.uses++);
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, last.stage), last.parity);
    start_sums(state.sums, state.weights, last.stage);
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, last.stage);
  }

  // Returns the tile. What is known of it is read from shared memory where it is needed: registers
  // are short.
  __device__ Tile compute(State& state, int query_stage) const {
    const TileBlocks all(args, pipe.load_tile(query_stage), kBlockKeys);
    const TileBlocks blocks = Rows::own_blocks(pipe.load_tile(query_stage));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.query_factor[half] =
          load_shared(queries().scale_of(thread / 32 * 16 + lane() / 4 + half * 8)) *
          (kSoftCap ? 1.0f : args.score_factor);
      state.maximum[half] = kNoScore;
      state.sum[half] = 0;
      state.rescale[half] = 1;
    }
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; i += 4) {
      state.sums[i] = state.sums[i + 1] = state.sums[i + 2] = state.sums[i + 3] = 0;
      store_shared(place_of_sums(i), make_float4(0, 0, 0, 0));
    }

    Rows::pass_over(all.end - blocks.end, true, state.uses);
    int block = blocks.end - 1;
    if (blocks.end < all.end) wait_for_turn();
    first_scores(state, block--, query_stage);
    if (blocks.end < all.end) pass_turn();
    for (; block >= blocks.begin && block >= blocks.full_end; --block) {
      step<true>(state, block, query_stage);
    }
    for (; block >= blocks.begin && block >= blocks.full_begin; --block) {
      step<false>(state, block, query_stage);
    }
    for (; block >= blocks.begin; --block) step<true>(state, block, query_stage);
    const Tile tile = pipe.load_tile(query_stage);
    release(Pipe::kQuery, query_stage);
    last_sums(state);
    Rows::pass_over(blocks.begin - all.begin, false, state.uses);
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; i += 4) {
      const float4 sums = whole_sums(state, i);
      state.sums[i] = sums.x;
      state.sums[i + 1] = sums.y;
      state.sums[i + 2] = sums.z;
      state.sums[i + 3] = sums.w;
    }
    return tile;
  }

  __device__ void take_tile(State& state, int query_stage) const {
    queries().round(query_stage);
    const Tile tile = compute(state, query_stage);
    float sums[] = {state.sum[0], state.sum[1]};
    sum_quad(sums);
    const float bases[] = {Softmax::base(state.maximum[0]), Softmax::base(state.maximum[1])};
    Rows::store(state.sums, bases, sums, tile);
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
      // What follows from the thread's number is computed anew: registers are short.
      Fp8Consumer here = *this;
      asm volatile("" : "+r"(here.thread));
      here.take_tile(state, place.stage);
    }
  }
};

}  // namespace quire::cuda::hopper
