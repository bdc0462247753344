#pragma once

#include "attention/attention_args.h"
#include "attention/mma.cuh"
#include "attention/softmax_state.h"
#include "attention/tile_policy.h"

namespace quire::cuda {

using attention::MergeFactors;
using attention::SoftmaxState;

// Exponents are of base 2 on the device.
struct BaseTwo {
  __host__ __device__ float operator()(float x) const { return exp2f(x); }
};

// Scores of 16 rows and 64 keys as the tensor cores leave them: of row lane / 4 elements 0, 1, of
// row lane / 4 + 8 elements 2, 3 of each of eight tiles of 8 keys.
using BlockScores = float[8][4];

// How far a score may pass the one that exponents are taken from before the sums are rescaled: a
// power of two, small enough for sums and 16-bit factors. Depends on the row alone.
constexpr float kRescaleAbove = 8;

// The multiplication of each key's scores with `scale` [64].
__device__ inline void scale_scores(BlockScores& scores, const float* scale, int lane) {
#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
    const float2 two = *reinterpret_cast<const float2*>(scale + tile * 8 + (lane & 3) * 2);
    scores[tile][0] = __fmul_rn(scores[tile][0], two.x);
    scores[tile][1] = __fmul_rn(scores[tile][1], two.y);
    scores[tile][2] = __fmul_rn(scores[tile][2], two.x);
    scores[tile][3] = __fmul_rn(scores[tile][3], two.y);
  }
}

// c * tanh(score / c) in base 2.
__device__ inline void cap_scores(BlockScores& scores, float inner, float cap) {
  constexpr float kLog2E = 1.4426950408889634f;
#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float grown = power_of_two(__fmul_rn(scores[tile][e], 2 * kLog2E * inner));
      const float tanh = __fmaf_rn(-2.0f, reciprocal(__fadd_rn(grown, 1.0f)), 1.0f);
      scores[tile][e] = __fmul_rn(tanh, cap * kLog2E);
    }
  }
}

// Takes away keys outside [bounds.x, bounds.y) of the two rows.
__device__ inline void mask_scores(BlockScores& scores, int block, int2 top, int2 bottom,
                                   int lane) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int key = block * kKeyBlock + tile * 8 + (lane & 3) * 2 + e;
      if (key < top.x || key >= top.y) scores[tile][e] = kNone;
      if (key < bottom.x || key >= bottom.y) scores[tile][2 + e] = kNone;
    }
  }
}

// One step of the online softmax: scores become 2^(factor * score - maximum). The states' sums stay
// those of the lane's own keys until sum_lanes. Returns what each row's sum of values is multiplied
// with, mostly 1 for both. Without `bottom` the lower eight rows do not exist.
__device__ inline float2 softmax_step(BlockScores& scores, float factor, SoftmaxState (&states)[2],
                                      bool bottom = true) {
  float rescale[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    if (row == 1 && !bottom) {
#pragma unroll
      for (int tile = 0; tile < 8; ++tile) scores[tile][2] = scores[tile][3] = 0;
      rescale[1] = 1;
      break;
    }
    SoftmaxState& state = states[row];
    float largest = fmaxf(scores[0][2 * row], scores[0][2 * row + 1]);
#pragma unroll
    for (int tile = 1; tile < 8; ++tile) {
      largest = fmaxf(largest, fmaxf(scores[tile][2 * row], scores[tile][2 * row + 1]));
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    largest = __fmul_rn(largest, factor);
    rescale[row] = 1;
    if (largest > state.maximum + kRescaleAbove) {
      rescale[row] = power_of_two(state.maximum - largest);
      state.maximum = largest;
    }
    const float base = state.empty() ? 0.0f : state.maximum;
    float sum = __fmul_rn(state.sum, rescale[row]);
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      float& a = scores[tile][2 * row];
      float& b = scores[tile][2 * row + 1];
      a = power_of_two(__fmaf_rn(a, factor, -base));
      b = power_of_two(__fmaf_rn(b, factor, -base));
      sum = __fadd_rn(sum, __fadd_rn(a, b));
    }
    state.sum = sum;
  }
  return make_float2(rescale[0], rescale[1]);
}

__device__ inline void sum_lanes(SoftmaxState& state) {
  state.sum = __fadd_rn(state.sum, __shfl_xor_sync(0xffffffffu, state.sum, 1));
  state.sum = __fadd_rn(state.sum, __shfl_xor_sync(0xffffffffu, state.sum, 2));
}

// Merges a sum of values. A side with factor 0 leaves the other's bits, the sign of a 0 too.
__device__ inline float merge_sum(float left, float right, MergeFactors factors) {
  const float product = __fmul_rn(right, factors.right);
  const float merged = factors.left == 0.0f ? product : __fmaf_rn(left, factors.left, product);
  return factors.right == 0.0f ? left : merged;
}

__device__ inline float finish_row(const AttentionArgs& args, const SoftmaxState& state, int head) {
  if (args.sinks == nullptr) return attention::finish(state, nullptr, BaseTwo{});
  // Rounded: a product that the compiler fuses with a later sum in one kernel only would change
  // bits.
  const float sink = __fmul_rn(args.sinks[head], 1.4426950408889634f);
  return attention::finish(state, &sink, BaseTwo{});
}

}  // namespace quire::cuda
