#pragma once

#include "attention/hopper/consumer_rows.cuh"

namespace quire::cuda::hopper {

// Consumer for keys and values in fp8 (e4m3), with one scale for each token and head of both.
// Queries come in bf16 and are rounded to e4m3 with a scale for each row.
//
// The scales of values stand in the exponents: weights are 2^(score + log2(scale) - base), where
// the base is 8 below the largest of such sums, so that weights stay in the type's range however
// much scales differ; the sum of the softmax takes each weight times 1 / scale. A block whose keys
// all have one scale, and whose values have, both powers of two, needs no more than numbers for the
// whole block, and gives the same bits: reading tables of scales takes as long as the products.
//
// The tensor cores keep few bits of sums of 8-bit products, so every kSumBlocks blocks the sums are
// put away, added in float32 to those in shared memory, and start anew.
//
// Registers of scores become the first operand of the product with the values as they are, because
// values lie in the order of fp8_slot.
template <class Shape, bool kSoftCap>
struct Fp8Consumer : ConsumerRows<Shape> {
  using Rows = ConsumerRows<Shape>;
  using Pipe = typename Rows::Pipe;
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

  using Element = __nv_fp8_e4m3;
  static constexpr int kBlockKeys = kPolicy.block_keys;
  static constexpr int kSteps = kBlockKeys / 32;
  static_assert(kBlockKeys % 32 == 0 && (kHeadSize == 64 || kHeadSize % 128 == 0));
  static constexpr int kRow = kPolicy.key_row();  // bytes of a row of keys, and of rounded queries
  static constexpr int kPartBytes = kPolicy.rows() * kRow;  // of codes of queries
  static constexpr float kLargest = 448;
  static constexpr float kLeastQuery = 0x1p-60f;  // of a row of zeros: its factor stays positive
  static constexpr unsigned kSumBlocks = 8;
  // The largest weight when a maximum is taken; how far scores may pass it before it is taken
  // anew, as powers of two: together below 448.
  static constexpr float kHeadroom = 8, kRescaleAbove = 0.8f;

  using Scores = float[kBlockKeys / 2];
  using Weights = unsigned[kSteps][4];

  struct State {
    Scores scores;
    Weights weights;
    Sums sums;              // since others were put away
    float rescale[2];       // what those are to be multiplied with
    float maximum[2];       // of score + log2(scale)
    float sum[2];           // of weight / scale, of this thread's keys alone
    float query_factor[2];  // from products of codes and the key's scale to scores
    int uses;               // of the rings of keys and values, before this block
    bool keys_arrived;      // of the next block
  };

  __device__ unsigned own_codes() const { return pipe.query_codes() + warpgroup * 64 * kRow; }
  __device__ unsigned scale_of_query(int own_row) const {
    return pipe.query_scales() + (warpgroup * 64 + own_row) * 4;
  }

  // Rounds the warpgroup's queries, two threads a row, and releases their place.
  __device__ void round_queries(int stage) const {
    constexpr int kBrought = kPolicy.query_row();
    const unsigned brought = pipe.query(stage) + warpgroup * 64 * kBrought;
    constexpr int kChunks = kHeadSize / 16;  // of 16 bytes, that a thread reads
    const int own_row = thread / 2, half = thread % 2;
    unsigned pairs[kChunks][4];
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = half * kChunks + i;
      load_shared(pairs[i], brought + chunk / 8 * kPolicy.rows() * kBrought + own_row * kBrought +
                                ((chunk % 8) ^ (own_row % 8)) * 16);
#pragma unroll
      for (const unsigned pair : pairs[i]) {
        largest = fmaxf(largest, fmaxf(fabsf(low_half(pair)), fabsf(high_half(pair))));
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    const float inverse = largest > 0 ? kLargest / largest : 0.0f;
    Rows::sync_warpgroup();
    release(Pipe::kRaw, 0);
#pragma unroll
    for (int i = 0; i < kChunks / 2; ++i) {
      unsigned codes[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned low = pairs[2 * i + k / 2][k % 2 * 2];
        const unsigned high = pairs[2 * i + k / 2][k % 2 * 2 + 1];
        codes[k] = pack_codes(low_half(low) * inverse, high_half(low) * inverse,
                              low_half(high) * inverse, high_half(high) * inverse);
      }
      const int chunk = half * kChunks / 2 + i;
      constexpr int kRowChunks = kRow / 16;
      const int swizzle = kRow == 128 ? own_row % 8 : own_row / 2 % 4;
      store_shared(own_codes() + chunk / kRowChunks * kPartBytes + own_row * kRow +
                       ((chunk % kRowChunks) ^ swizzle) * 16,
                   codes);
    }
    if (half == 0) {
      store_shared(scale_of_query(own_row), fmaxf(largest, kLeastQuery) / kLargest);
    }
    publish_shared_writes();
    Rows::sync_warpgroup();
  }

  __device__ void start_scores(Scores& scores, int stage) const {
    const unsigned long long queries = rows_descriptor<kRow>(own_codes(), 8 * kRow);
    const unsigned long long keys = rows_descriptor<kRow>(pipe.keys(stage), 8 * kHeadSize);
    hold(scores);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadSize / 32; ++step) {
      const int part = step * 32 / kRow, within = step * 32 % kRow;
      const unsigned long long a = queries + ((part * kPartBytes + within) >> 4);
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

  // Two of a table's scales, of the thread's columns in the i-th eight keys.
  __device__ float2 scales_of(unsigned table, int i) const {
    return load_shared_two(table + lane() % 4 * Pipe::kMemory.scale_lane_bytes + i * 8);
  }

  // What exponents are taken from.
  __device__ static float base(float maximum) {
    return maximum == kNoScore ? 0.0f : maximum - kHeadroom;
  }

  // What is said of a block's scales.
  struct BlockScales {
    float key, value_exponent, inverse;  // where they are alike,
    float said;                          // which is so unless this is 0
    __device__ bool alike() const { return __any_sync(0xffffffffu, said != 0) != 0; }
  };
  __device__ BlockScales block_scales(int stage) const {
    const float4 four = load_shared_four(pipe.block_scales(stage));
    return {four.x, four.y, four.z, four.w};
  }

  // Products of codes to products of the queries' codes with keys.
  __device__ void scale_scores(Scores& scores, int stage) const {
#pragma unroll
    for (int i = 0; i < kBlockKeys / 8; ++i) {
      const float2 two = scales_of(pipe.key_scales(stage), i);
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[4 * i + e] *= e % 2 == 0 ? two.x : two.y;
    }
  }

  // The largest score + log2(scale of the value) of a row.
  __device__ void largest_scores(float (&most)[2], const Scores& scores, const float (&factor)[2],
                                 int stage) const {
    most[0] = most[1] = kNoScore;
#pragma unroll
    for (int i = 0; i < kBlockKeys / 8; ++i) {
      const float2 two = scales_of(pipe.value_exponents(stage), i);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        most[e / 2] = fmaxf(
            most[e / 2], __fmaf_rn(scores[4 * i + e], factor[e / 2], e % 2 == 0 ? two.x : two.y));
      }
    }
#pragma unroll
    for (float& row : most) row = quad_largest(row);
  }

  // Takes the largest score + log2(scale of the value) of a row's block into account. Returns what
  // exponents are taken from and what sums have to be multiplied with.
  __device__ static float2 raise(float& maximum, float most) {
    const float old = base(maximum);
    const bool first = maximum == kNoScore;
    if (most > maximum + kRescaleAbove) maximum = most;
    const float now = base(maximum);
    return make_float2(now, first ? 0.0f : exp2_fast(old - now));
  }

  // Scores, times `factor`, to weights, with what raise() said of the rows.
  __device__ void weigh(State& state, const float (&factor)[2], const float2 (&raised)[2],
                        int stage) const {
    Scores& scores = state.scores;
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < kBlockKeys / 8; ++i) {
      const float2 exponents = scales_of(pipe.value_exponents(stage), i);
      const float2 inverse = scales_of(pipe.inverse_scales(stage), i);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int half = e / 2;
        const float exponent = __fadd_rn(e % 2 == 0 ? exponents.x : exponents.y, -raised[half].x);
        float& score = scores[4 * i + e];
        score = exp2_fast(__fmaf_rn(score, factor[half], exponent));
        sums[half][e % 2] = __fmaf_rn(score, e % 2 == 0 ? inverse.x : inverse.y, sums[half][e % 2]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.sum[half] =
          __fmaf_rn(state.sum[half], raised[half].y, __fadd_rn(sums[half][0], sums[half][1]));
    }
  }
  // The same where scales are alike. Bits are the same too, as the scales are powers of two.
  __device__ static void weigh_alike(State& state, const float (&factor)[2],
                                     const float2 (&raised)[2], const BlockScales& scales) {
    float exponent[2], sums[2][2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      exponent[half] = __fadd_rn(scales.value_exponent, -raised[half].x);
    }
#pragma unroll
    for (int i = 0; i < kBlockKeys / 2; ++i) {
      const int half = i / 2 % 2;
      float& score = state.scores[i];
      score = exp2_fast(__fmaf_rn(score, factor[half], exponent[half]));
      sums[half][i % 2] = __fadd_rn(sums[half][i % 2], score);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = __fadd_rn(__fmul_rn(sums[half][0], scales.inverse),
                                  __fmul_rn(sums[half][1], scales.inverse));
      state.sum[half] = __fmaf_rn(state.sum[half], raised[half].y, sum);
    }
  }

  // The softmax of the block's scores; `kMasked`: some row does not see all its keys. Returns what
  // sums have to be multiplied with. A row that sees nothing of a block keeps its bits.
  template <bool kMasked>
  __device__ float2 softmax(State& state, const BlockScales& scales, int block, int stage,
                            int query_stage) const {
    const bool alike = scales.alike();
    float factor[] = {state.query_factor[0], state.query_factor[1]};
    if (alike) {
      factor[0] *= scales.key;
      factor[1] *= scales.key;
    } else {
      scale_scores(state.scores, stage);
    }
    if constexpr (kSoftCap) {
      cap_scores(state.scores, factor);
      factor[0] = factor[1] = 1;
    }
    if constexpr (kMasked) {
      int first_key[2], end_key[2];
      Rows::find_keys(pipe.load_tile(query_stage), first_key, end_key);
      mask_scores(state.scores, first_key, end_key, block * kBlockKeys + lane() % 4 * 2);
    }
    float most[2];
    if (alike) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        most[half] =
            __fmaf_rn(largest_score(state.scores, half), factor[half], scales.value_exponent);
      }
    } else {
      largest_scores(most, state.scores, factor, stage);
    }
    const float2 raised[] = {raise(state.maximum[0], most[0]), raise(state.maximum[1], most[1])};
    if (alike) {
      weigh_alike(state, factor, raised, scales);
    } else {
      weigh(state, factor, raised, stage);
    }
    release(Pipe::kScales, stage);
    return make_float2(raised[0].y, raised[1].y);
  }
  __device__ void cap_scores(Scores& scores, const float (&factor)[2]) const {
#pragma unroll
    for (int i = 0; i < kBlockKeys / 2; ++i) {
      const float inner = scores[i] * factor[i / 2 % 2] * args.soft_cap_inner;
      scores[i] =
          __fmaf_rn(-2 * args.soft_cap, reciprocal_fast(exp2_fast(inner) + 1.0f), args.soft_cap);
    }
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
  __device__ void mend_values(int query_stage, int block, const RingPlace<kStages>& place) const {
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
    const RingPlace<kStages> earlier(state.uses);
    const RingPlace<kStages> place(++state.uses);
    const RingPlace<kStages> later(state.uses + 1);
    if (!state.keys_arrived) {
      MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    }
    const bool values_arrived =
        MemoryBarrier::ended(pipe.arrived(Pipe::kValues, earlier.stage), earlier.parity);
    const BlockScales scales = block_scales(place.stage);
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
    const float2 factors = softmax<kMasked>(state, scales, block, place.stage, query_stage);
    state.keys_arrived = MemoryBarrier::ended(pipe.arrived(Pipe::kKeys, later.stage), later.parity);
    Rows::keep_before_wait(state.sum[0] + state.sum[1]);
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
    const RingPlace<kStages> place(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    const BlockScales scales = block_scales(place.stage);
    start_scores(state.scores, place.stage);
    wait_products<0>();
    hold(state.scores);
    release(Pipe::kKeys, place.stage);
    softmax<true>(state, scales, block, place.stage, query_stage);
    mend_values(query_stage, block, place);
    pack(state.weights, state.scores);
    state.keys_arrived = false;
  }
  __device__ void last_sums(State& state) const {
    const RingPlace<kStages> last(state.uses++);
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, last.stage), last.parity);
    start_sums(state.sums, state.weights, last.stage);
    wait_products<0>();
    hold(state.sums);
    release(Pipe::kValues, last.stage);
  }

  // Returns the tile. What is known of it is read from shared memory where it is needed: registers
  // are short.
  __device__ Tile compute(State& state, int query_stage) const {
    const TileBlocks blocks(args, pipe.load_tile(query_stage), kBlockKeys);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.query_factor[half] =
          load_shared(scale_of_query(thread / 32 * 16 + lane() / 4 + half * 8)) *
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

    int block = blocks.end - 1;
    first_scores(state, block--, query_stage);
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
    round_queries(query_stage);
    const Tile tile = compute(state, query_stage);
    float sums[] = {state.sum[0], state.sum[1]};
    sum_quad(sums);
    const float bases[] = {base(state.maximum[0]), base(state.maximum[1])};
    Rows::store(state.sums, bases, sums, tile);
  }

  __device__ void run() const {
    State state;
    state.uses = 0;
    Rows::first_turn();
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      MemoryBarrier::wait(pipe.arrived(Pipe::kQuery, place.stage), place.parity);
      if (pipe.load_tile(place.stage).rows == 0) return;
      // What follows from the thread's number is computed anew: registers are short.
      Fp8Consumer here = *this;
      asm volatile("" : "+r"(here.thread));
      here.take_tile(state, place.stage);
    }
  }
};

}  // namespace quire::cuda::hopper
