#pragma once

#include "attention/hopper/consumer_rows.cuh"

namespace quire::cuda::hopper {

// The online softmax of a warpgroup's rows where keys and values are fp8 (e4m3), with one scale for
// each token and head of both.
//
// The scales of values stand in the exponents: weights are 2^(score + log2(scale) - base), where
// the base is 8 below the largest of such sums, so that weights stay in the type's range however
// much scales differ; the sum of the softmax takes each weight times 1 / scale. A block whose keys
// all have one scale, and whose values have, both powers of two, needs no more than numbers for the
// whole block, and gives the same bits: reading tables of scales takes as long as the products.
template <class Shape, bool kSoftCap>
struct Fp8Softmax : ConsumerRows<Shape> {
  using Rows = ConsumerRows<Shape>;
  using Pipe = typename Rows::Pipe;
  using Rows::args;
  using Rows::kPolicy;
  using Rows::lane;
  using Rows::pipe;
  using Rows::release;
  static constexpr int kBlockKeys = kPolicy.block_keys;
  // The largest weight when a maximum is taken; how far scores may pass it before it is taken
  // anew, as powers of two: together below 448.
  static constexpr float kHeadroom = 8, kRescaleAbove = 0.8f;

  using Scores = float[kBlockKeys / 2];

  struct SoftmaxState {
    Scores scores;          // products of codes, then weights
    float maximum[2];       // of score + log2(scale)
    float sum[2];           // of weight / scale, of this thread's keys alone
    float query_factor[2];  // from products of codes and the key's scale to scores
  };

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
  __device__ void weigh(SoftmaxState& state, const float (&factor)[2], const float2 (&raised)[2],
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
  __device__ static void weigh_alike(SoftmaxState& state, const float (&factor)[2],
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
  __device__ float2 softmax(SoftmaxState& state, const BlockScales& scales, int block, int stage,
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
};

}  // namespace quire::cuda::hopper
