#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace quire::cuda::hopper {

// The online softmax of a thread's two rows over its share of a block's scores (as wgmma leaves
// them: elements 4 i, 4 i + 1 of the first row and 4 i + 2, 4 i + 3 of the second).

constexpr float kNoScore = -__builtin_huge_valf();

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// c * tanh(score / c) in base 2.
template <int kCount>
__device__ inline void cap_scores(float (&scores)[kCount], float inner, float cap) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    scores[i] = __fmaf_rn(-2 * cap, reciprocal_fast(exp2_fast(scores[i] * inner) + 1.0f), cap);
  }
}

// Takes away the scores of keys outside [first, end), by row; `column` is the key of element 0.
template <int kCount>
__device__ inline void mask_scores(float (&scores)[kCount], const int (&first)[2],
                                   const int (&end)[2], int column) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int low = first[row] - column, high = end[row] - column;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * i + e < low || 8 * i + e >= high) scores[4 * i + 2 * row + e] = kNoScore;
      }
    }
  }
}

// Over the threads that share a row.
__device__ inline float quad_largest(float most) {
  most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
  return fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
}

// Of all keys of the block.
template <int kCount>
__device__ inline float largest_score(const float (&scores)[kCount], int row) {
  float largest[2] = {scores[2 * row], scores[2 * row + 1]};
#pragma unroll
  for (int i = 1; i < kCount / 4; ++i) {
    largest[0] = fmaxf(largest[0], scores[4 * i + 2 * row]);
    largest[1] = fmaxf(largest[1], scores[4 * i + 2 * row + 1]);
  }
  return quad_largest(fmaxf(largest[0], largest[1]));
}

// Sums of two rows over the threads that share them.
__device__ inline void sum_quad(float (&sums)[2]) {
#pragma unroll
  for (float& sum : sums) {
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  }
}

// How far scores in base 2 may grow past the maximum that exponents are taken from before that is
// raised, and the sums with it: a power of two that sums and 16-bit weights have room for. Seldom
// so, and a row decides by itself.
constexpr float kRescaleAbove = 8;

struct SoftmaxRows {
  float maximum[2] = {kNoScore, kNoScore};
  float sum[2] = {0, 0};  // of this thread's scores alone, until finish

  // What exponents are taken from.
  __device__ float base(int row, float factor) const {
    return maximum[row] == kNoScore ? 0.0f : maximum[row] * factor;
  }

  // Scores become 2^(factor * (score - maximum)). Returns what the rows' sums of values have to be
  // multiplied with. A row that sees nothing of a block keeps its bits: the factor is 1. Lazy: the
  // maximum is an earlier block's while scores stay near it.
  template <bool kLazy, int kCount>
  __device__ float2 step(float (&scores)[kCount], float factor) {
    float rescale[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float most = largest_score(scores, row);
      rescale[row] = 1;
      if (kLazy ? (most - maximum[row]) * factor > kRescaleAbove : most > maximum[row]) {
        rescale[row] = exp2_fast((maximum[row] - most) * factor);
        maximum[row] = most;
      }
      const float from = base(row, factor);
      float sums[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[4 * i + 2 * row + e];
          score = exp2_fast(__fmaf_rn(score, factor, -from));
          sums[e] = __fadd_rn(sums[e], score);
        }
      }
      sum[row] = __fmaf_rn(sum[row], rescale[row], __fadd_rn(sums[0], sums[1]));
    }
    return make_float2(rescale[0], rescale[1]);
  }

  // Sums over all keys.
  __device__ void finish() {
    sum_quad(sum);
  }
};

__device__ inline unsigned pack_pair(float low, float high, __nv_bfloat16) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline unsigned pack_pair(float low, float high, __half) {
  unsigned packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
// Four e4m3, the first in the lowest byte; what passes 448 becomes it.
__device__ inline unsigned pack_codes(float a, float b, float c, float d) {
  unsigned packed;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}\n"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}
__device__ inline float low_half(unsigned pair) {
  return __uint_as_float(pair << 16);
}
__device__ inline float high_half(unsigned pair) {
  return __uint_as_float(pair & 0xffff0000u);
}
__device__ inline float clamp_half(float x) {
  return fminf(fmaxf(x, -65504.0f), 65504.0f);
}

// Transposes the 4x4 matrix of the lanes of a quad (rows) and their registers (columns).
__device__ inline void transpose_quad(unsigned (&four)[4], int lane) {
  const bool odd = lane & 1, high = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? four[i] : four[i + 1], 1);
    (odd ? four[i] : four[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, high ? four[i] : four[i + 2], 2);
    (high ? four[i] : four[i + 2]) = got;
  }
}

}  // namespace quire::cuda::hopper
