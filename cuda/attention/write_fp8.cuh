#pragma once

#include <cuda_fp8.h>

#include "attention/kv_view.h"

namespace quire::cuda {

// Whether dimension `i` changes its sign before the Hadamard transform: a fixed random choice.
__device__ inline bool flipped(int i) {
  const unsigned mixed = (i + 1) * 0x9e3779b1u;
  return (mixed ^ mixed >> 15) >> 7 & 1;
}

// The rotation of queries and keys for fp8, see write_kv: `block` dimensions at a time, a power of
// two. A warp holds pairs 2 (lane + 32 j) of the head.
template <int kPairs>
__device__ void rotate_for_fp8(float2 (&pairs)[kPairs], int block, int lane) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    const float x = flipped(i) ? -pairs[j].x : pairs[j].x;
    const float y = flipped(i + 1) ? -pairs[j].y : pairs[j].y;
    pairs[j] = make_float2(x + y, x - y);
  }
  for (int distance = 2; distance < min(block, 64); distance *= 2) {
    const int lanes = distance / 2;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const float x = __shfl_xor_sync(0xffffffffu, pairs[j].x, lanes);
      const float y = __shfl_xor_sync(0xffffffffu, pairs[j].y, lanes);
      pairs[j] = lane & lanes ? make_float2(x - pairs[j].x, y - pairs[j].y)
                              : make_float2(pairs[j].x + x, pairs[j].y + y);
    }
  }
#pragma unroll
  for (int step = 1; step < kPairs; step *= 2) {
    if (64 * step >= block) break;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      if (j & step) continue;
      const float2 low = pairs[j], high = pairs[j + step];
      pairs[j] = make_float2(low.x + high.x, low.y + high.y);
      pairs[j + step] = make_float2(low.x - high.x, low.y - high.y);
    }
  }
  const float factor = rsqrtf(static_cast<float>(block));
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    pairs[j] = make_float2(pairs[j].x * factor, pairs[j].y * factor);
  }
}

// Two neighbouring dimensions of a token's fp8 keys or values, `head` as below, to the slab.
__device__ inline void write_fp8(const KvView& kv, std::byte* slab, int head, int token,
                                 int dimension, float2 pair) {
  const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
  std::byte* of_head = slab + static_cast<std::size_t>(head) * kv.page_size * kv.head_size;
  if (head < kv.kv_heads) {
    *reinterpret_cast<__nv_fp8x2_storage_t*>(of_head + token * kv.head_size + dimension) = two;
    return;
  }
  std::byte* to =
      of_head + (token / kFp8Box * kv.head_size + dimension) * kFp8Box + fp8_slot(token % kFp8Box);
  to[0] = static_cast<std::byte>(two & 0xff);
  to[kFp8Box] = static_cast<std::byte>(two >> 8);
}

// The least 2^(kFp8ScaleStep i + first) that is `ratio` or more, where ratio is finite; of 0, one
// with an inverse.
__device__ inline float fp8_scale(float ratio, int first) {
  static_assert(kFp8ScaleStep == 8);
  const int exponent = ((__float_as_int(ratio) + 0x7fffff) >> 23) - 127;
  const int i = ratio == 0 ? 0 : min((exponent - first + 7) >> 3, 16);
  return __int_as_float((8 * i + first + 127) << 23);
}

}  // namespace quire::cuda
