#pragma once

#include "attention/hopper/consumer_rows.cuh"

namespace quire::cuda::hopper {

// Consumer for keys and values in fp8 (e4m3), with one scale for each token and head of both.
// Queries come in bf16 and are rounded to e4m3 with a scale for each row.
//
// The scales of values stand in the exponents: weights are 2^(score + log2(scale) - base), where
// the base is 8 below the largest of such sums, so that weights lie in 0 ... 256 however much
// scales differ; the sum of the softmax takes each weight times 1 / scale. The tensor cores keep
// few bits of sums of 8-bit products, so a block's sums start anew and are added in float32.
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
  static constexpr int kPartBytes = kPolicy.rows() * kPolicy.query_row();  // of queries
  static constexpr int kOwnBytes = 64 * kPolicy.query_row();  // of these, the warpgroup's
  // Behind the rounded queries, in the place of their own bf16: their scales.
  static constexpr int kQueryScales =
      kHeadSize == 64 ? kOwnBytes / 2 : kHeadSize / 128 * kPartBytes;
  static constexpr float kHeadroom = 8;  // the largest weight is 2^kHeadroom, below 448
  static constexpr float kLargest = 448;

  // Whether registers suffice to add a block's sums while the next scores are computed.
  static constexpr bool kAddBeside = kBlockKeys / 2 + kHeadSize <= 192;

  using Scores = float[kBlockKeys / 2];
  using Weights = unsigned[kSteps][4];

  struct State {
    Scores scores;
    Weights weights;
    Sums block_sums;        // of the block whose weights are at hand
    Sums sums;              // of the blocks before it
    float rescale[2];       // what these are to be multiplied with then
    float maximum[2];       // of score + log2(scale)
    float sum[2];           // of weight / scale, of this thread's keys alone
    float query_factor[2];  // from products of codes and the key's scale to scores
    int uses;               // of the rings of keys and values, before this block
  };

  __device__ unsigned own_queries(int stage) const {
    return pipe.query(stage) + warpgroup * kOwnBytes;
  }

  // Rounds the warpgroup's queries, two threads a row, in place: rows of half as many bytes from
  // the start of the same parts.
  __device__ void round_queries(int stage) const {
    constexpr int kChunks = kHeadSize / 16;  // of 16 bytes, that a thread reads
    const int own_row = thread / 2, half = thread % 2;
    unsigned pairs[kChunks][4];
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = half * kChunks + i;
      load_shared(pairs[i], own_queries(stage) + chunk / 8 * kPartBytes + own_row * 128 +
                                ((chunk % 8) ^ (own_row % 8)) * 16);
#pragma unroll
      for (const unsigned pair : pairs[i]) {
        largest = fmaxf(largest, fmaxf(fabsf(low_half(pair)), fabsf(high_half(pair))));
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    const float inverse = largest > 0 ? kLargest / largest : 0.0f;
    Rows::sync_warpgroup();
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
      store_shared(own_queries(stage) + chunk / kRowChunks * kPartBytes + own_row * kRow +
                       ((chunk % kRowChunks) ^ swizzle) * 16,
                   codes);
    }
    if (half == 0) {
      store_shared(own_queries(stage) + kQueryScales + own_row * 4, largest / kLargest);
    }
    publish_shared_writes();
    Rows::sync_warpgroup();
  }

  __device__ void start_scores(Scores& scores, int query_stage, int stage) const {
    const unsigned long long queries = rows_descriptor<kRow>(own_queries(query_stage), 8 * kRow);
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
      const unsigned long long b = values + (step * 32 * kHeadSize >> 4);
      if (step == 0) {
        multiply_registers<Element, 0>(sums, weights[step], b);
      } else {
        multiply_registers<Element, 1>(sums, weights[step], b);
      }
    }
    commit_products();
  }

  // Products of codes become score + log2(scale of the value), all in base 2.
  __device__ void scale_scores(State& state, int stage) const {
#pragma unroll
    for (int i = 0; i < kBlockKeys / 8; ++i) {
      unsigned two[4];  // of two keys
      load_shared(two, pipe.scales(stage) + (8 * i + lane() % 4 * 2) * 8);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float key_scale = __uint_as_float(two[2 * e]);
        const float value_exponent = __uint_as_float(two[2 * e + 1]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& score = state.scores[4 * i + 2 * half + e];
          const float scaled = __fmul_rn(score, key_scale);
          score = kSoftCap ? capped(scaled * state.query_factor[half]) + value_exponent
                           : __fmaf_rn(scaled, state.query_factor[half], value_exponent);
        }
      }
    }
  }
  __device__ float capped(float score) const {
    return __fmaf_rn(-2 * args.soft_cap,
                     reciprocal_fast(exp2_fast(score * args.soft_cap_inner) + 1.0f), args.soft_cap);
  }

  // What exponents are taken from.
  __device__ static float base(float maximum) {
    return maximum == kNoScore ? 0.0f : maximum - kHeadroom;
  }

  // The softmax of the block's scores; `kMasked`: some row does not see all its keys. A row that
  // sees nothing of a block keeps its bits.
  template <bool kMasked>
  __device__ float2 softmax(State& state, int block, int stage, int query_stage) const {
    scale_scores(state, stage);
    if constexpr (kMasked) {
      int first_key[2], end_key[2];
      Rows::find_keys(pipe.load_tile(query_stage), first_key, end_key);
      mask_scores(state.scores, first_key, end_key, block * kBlockKeys + lane() % 4 * 2);
    }
    float rescale[2], bases[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float most = largest_score(state.scores, half);
      const float old = base(state.maximum[half]);
      const bool first = state.maximum[half] == kNoScore;
      rescale[half] = 1;
      if (most > state.maximum[half]) {
        state.maximum[half] = most;
        rescale[half] = first ? 0.0f : exp2_fast(old - base(most));
      }
      bases[half] = base(state.maximum[half]);
    }
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < kBlockKeys / 8; ++i) {
      float inverse[2];
      load_shared(inverse, pipe.inverse_scales(stage) + (8 * i + lane() % 4 * 2) * 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = state.scores[4 * i + 2 * half + e];
          score = exp2_fast(__fadd_rn(score, -bases[half]));
          sums[half][e] = __fmaf_rn(score, inverse[e], sums[half][e]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.sum[half] =
          __fmaf_rn(state.sum[half], rescale[half], __fadd_rn(sums[half][0], sums[half][1]));
    }
    return make_float2(rescale[0], rescale[1]);
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

  __device__ static void add_block(State& state) {
#pragma unroll
    for (int i = 0; i < kHeadSize / 2; ++i) {
      state.sums[i] = __fmaf_rn(state.sums[i], state.rescale[i / 2 % 2], state.block_sums[i]);
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

  // The sums of the block before, whose weights are at hand, and the scores of this one. With
  // `overlap` the softmax runs beside the products for the sums, and the registers of both are
  // taken at once; else the warpgroups' softmax runs beside the other's products.
  template <bool kMasked>
  __device__ void step(State& state, int block, int query_stage) const {
    const RingPlace<kStages> earlier(state.uses);
    const RingPlace<kStages> place(++state.uses);
    if constexpr (kPolicy.overlap) {
      MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
      wait_for_turn();
      start_scores(state.scores, query_stage, place.stage);
      MemoryBarrier::wait(pipe.arrived(Pipe::kValues, earlier.stage), earlier.parity);
      start_sums(state.block_sums, state.weights, earlier.stage);
      pass_turn();
      wait_products<1>();
    } else {
      MemoryBarrier::wait(pipe.arrived(Pipe::kValues, earlier.stage), earlier.parity);
      wait_for_turn();
      start_sums(state.block_sums, state.weights, earlier.stage);
      wait_products<0>();
      hold(state.block_sums);
      release(Pipe::kValues, earlier.stage);
      if constexpr (!kAddBeside) add_block(state);
      MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
      start_scores(state.scores, query_stage, place.stage);
      pass_turn();
      if constexpr (kAddBeside) add_block(state);
      wait_products<0>();
    }
    hold(state.scores);
    const float2 rescale = softmax<kMasked>(state, block, place.stage, query_stage);
    release(Pipe::kKeys, place.stage);
    if constexpr (kPolicy.overlap) {
      Rows::keep_before_wait(state.sum[0] + state.sum[1]);
      wait_products<0>();
      hold(state.block_sums);
      release(Pipe::kValues, earlier.stage);
      add_block(state);
    }
    if constexpr (kMasked) mend_values(query_stage, block, place);
    state.rescale[0] = rescale.x;
    state.rescale[1] = rescale.y;
    pack(state.weights, state.scores);
  }

  // Returns the tile. What is known of it is read from shared memory where it is needed: registers
  // are short.
  __device__ Tile compute(State& state, int query_stage) const {
    const TileBlocks blocks(args, pipe.load_tile(query_stage), kBlockKeys);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.query_factor[half] = load_shared(own_queries(query_stage) + kQueryScales +
                                             (thread / 32 * 16 + lane() / 4 + half * 8) * 4) *
                                 (kSoftCap ? 1.0f : args.score_factor);
      state.maximum[half] = kNoScore;
      state.sum[half] = 0;
    }
#pragma unroll
    for (float& sum : state.sums) sum = 0;

    int block = blocks.end - 1;
    const RingPlace<kStages> place(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kKeys, place.stage), place.parity);
    start_scores(state.scores, query_stage, place.stage);
    wait_products<0>();
    hold(state.scores);
    const float2 rescale = softmax<true>(state, block, place.stage, query_stage);
    release(Pipe::kKeys, place.stage);
    mend_values(query_stage, block, place);
    state.rescale[0] = rescale.x;
    state.rescale[1] = rescale.y;
    pack(state.weights, state.scores);
    --block;
    for (; block >= blocks.begin && block >= blocks.full_end; --block) {
      step<true>(state, block, query_stage);
    }
    for (; block >= blocks.begin && block >= blocks.full_begin; --block) {
      step<false>(state, block, query_stage);
    }
    for (; block >= blocks.begin; --block) step<true>(state, block, query_stage);
    const Tile tile = pipe.load_tile(query_stage);
    release(Pipe::kQuery, query_stage);

    const RingPlace<kStages> last(state.uses);
    MemoryBarrier::wait(pipe.arrived(Pipe::kValues, last.stage), last.parity);
    start_sums(state.block_sums, state.weights, last.stage);
    wait_products<0>();
    hold(state.block_sums);
    release(Pipe::kValues, last.stage);
    add_block(state);
    ++state.uses;
    return tile;
  }

  __device__ void run() const {
    State state;
    state.uses = 0;
    Rows::first_turn();
    for (int count = 0;; ++count) {
      const RingPlace<kPolicy.query_stages> place(count);
      MemoryBarrier::wait(pipe.arrived(Pipe::kQuery, place.stage), place.parity);
      if (pipe.load_tile(place.stage).rows == 0) return;
      round_queries(place.stage);
      const Tile tile = compute(state, place.stage);
      float sums[] = {state.sum[0], state.sum[1]};
      sum_quad(sums);
      const float bases[] = {base(state.maximum[0]), base(state.maximum[1])};
      Rows::store(state.sums, bases, sums, tile);
    }
  }
};

}  // namespace quire::cuda::hopper
