#include <cuda_fp16.h>

#include "attention/page_kernels.h"
#include "attention/write_fp8.cuh"
#include "attention/write_place.cuh"
#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kPairDimensions = 64;  // that the lanes of a warp hold as pairs

// One head of one row: of the query, the keys or the values. A warp's work.
struct Unit {
  const float* from;  // [head_size]
  const float* part;  // all heads of the query, or of the keys
  int part_size;
  const float* bias;    // of the part
  const float* weight;  // of the part's norm; [head_size], or as long as the part
  int offset;           // of the head in its part
  bool rotated;         // and normalised
};

__device__ Unit unit_of(const WriteKvCall& call, int row, int index) {
  const int size = call.kv.head_size;
  const int kv_heads = call.kv.kv_heads;
  const int width = (call.heads + (call.has_kv ? 2 * kv_heads : 0)) * size;
  const float* start = call.projected + static_cast<std::size_t>(row) * width;
  const int query_size = call.heads * size, key_size = kv_heads * size;
  if (index < call.heads) {
    return {start + index * size, start, query_size, call.q_bias, call.q_norm, index * size, true};
  }
  index -= call.heads;
  start += query_size;
  if (index < kv_heads) {
    return {start + index * size, start, key_size, call.k_bias, call.k_norm, index * size, true};
  }
  index -= kv_heads;
  start += key_size;
  return {start + index * size, start, key_size, call.v_bias, nullptr, index * size, false};
}

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

__device__ float warp_maximum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// Dimensions i and i + 1 of an array that may be missing.
__device__ float2 pair_at(const float* array, int i, float missing) {
  return array == nullptr ? make_float2(missing, missing) : make_float2(array[i], array[i + 1]);
}

// 1 / root mean square of what the norm goes over; `pairs` is the warp's head.
template <int kPairs>
__device__ float inverse_norm(const WriteKvCall& call, const Unit& unit,
                              const float2 (&pairs)[kPairs], int lane) {
  float sum = 0;
  if (call.norm == QkNormKind::whole) {
    for (int i = lane; i < unit.part_size; i += 32) {
      const float x = unit.part[i] + (unit.bias == nullptr ? 0.0f : unit.bias[i]);
      sum = fmaf(x, x, sum);
    }
    return rsqrtf(warp_sum(sum) / unit.part_size + call.epsilon);
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    sum = fmaf(pairs[j].x, pairs[j].x, sum);
    sum = fmaf(pairs[j].y, pairs[j].y, sum);
  }
  return rsqrtf(warp_sum(sum) / call.kv.head_size + call.epsilon);
}

// Bias and norm.
template <int kPairs>
__device__ void normalise(const WriteKvCall& call, const Unit& unit, float2 (&pairs)[kPairs],
                          int lane) {
  const int size = call.kv.head_size;
  if (unit.bias != nullptr) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = 2 * (lane + 32 * j);
      if (i >= size) break;
      const float2 bias = pair_at(unit.bias + unit.offset, i, 0);
      pairs[j] = make_float2(pairs[j].x + bias.x, pairs[j].y + bias.y);
    }
  }
  if (!unit.rotated || call.norm == QkNormKind::none) return;
  const float factor = inverse_norm(call, unit, pairs, lane);
  const float* weight = unit.weight;
  if (weight != nullptr && call.norm == QkNormKind::whole) weight += unit.offset;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i >= size) break;
    const float2 scale = pair_at(weight, i, 1);
    pairs[j] = make_float2(pairs[j].x * factor * scale.x, pairs[j].y * factor * scale.y);
  }
}

// Cosine and sine for two dimensions, each its own.
struct Angles {
  float2 cosine, sine;
};

__device__ Angles angles_of(const WriteKvCall& call, int row, int i) {
  const int half = call.rope_dimensions / 2;
  const auto start = static_cast<std::size_t>(row) * half;
  const auto angle = [&](int k) { return k < half ? k : k - half; };
  Angles angles{{1, 1}, {0, 0}};
  if (i < 2 * half) {
    angles.cosine.x = call.cosine[start + angle(i)];
    angles.sine.x = call.sine[start + angle(i)];
  }
  if (i + 1 < 2 * half) {
    angles.cosine.y = call.cosine[start + angle(i + 1)];
    angles.sine.y = call.sine[start + angle(i + 1)];
  }
  return angles;
}

// Of the warp's head in shared memory.
__device__ float rotated(const WriteKvCall& call, const float* staged, int i, float cosine,
                         float sine) {
  const int half = call.rope_dimensions / 2;
  if (i >= 2 * half) return staged[i];
  return i < half ? staged[i] * cosine - staged[i + half] * sine
                  : staged[i] * cosine + staged[i - half] * sine;
}

// Pairs 2 (lane + 32 j) of a head to its place, token `token` of a page; `head` counts the keys'
// heads, then the values'.
template <int kPairs>
__device__ void write_page(const WriteKvCall& call, const float2 (&pairs)[kPairs], std::byte* slab,
                           int token, int head, int lane) {
  const KvView& kv = call.kv;
  const std::size_t place = static_cast<std::size_t>(head) * kv.page_size + token;
  float scale = 0, inverse = 0;
  if (kv_scaled(kv.type)) {
    const float most = kv.type == KvType::int8 ? 127 : 448;
    float largest = 0;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      largest = fmaxf(largest, fmaxf(fabsf(pairs[j].x), fabsf(pairs[j].y)));
    }
    largest = warp_maximum(largest);
    // Below this, which is nothing beside any sum, the inverse would be infinite.
    if (largest < 1e-30f) largest = 0;
    scale = largest / most;
    if (kv.type == KvType::fp8) {
      scale = fp8_scale(scale, head < kv.kv_heads ? kFp8KeyScale : kFp8ValueScale);
      inverse = 1 / scale;
    } else {
      inverse = largest > 0 ? most / largest : 0;
    }
    const std::size_t tokens = static_cast<std::size_t>(2) * kv.kv_heads * kv.page_size;
    if (lane == 0) reinterpret_cast<float*>(slab + tokens * kv.head_size)[place] = scale;
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i >= kv.head_size) break;
    const std::size_t at = place * kv.head_size + i;
    if (kv.type == KvType::int8) {
      const char2 two = {static_cast<signed char>(__float2int_rn(pairs[j].x * inverse)),
                         static_cast<signed char>(__float2int_rn(pairs[j].y * inverse))};
      *reinterpret_cast<char2*>(slab + at) = two;
    } else if (kv.type == KvType::fp8) {
      write_fp8(kv, slab, head, token, i, make_float2(pairs[j].x * inverse, pairs[j].y * inverse));
    } else if (kv.type == KvType::f16) {
      *reinterpret_cast<__half2*>(slab + 2 * at) =
          __halves2half2(clamped_half(pairs[j].x), clamped_half(pairs[j].y));
    } else {
      *reinterpret_cast<__nv_bfloat162*>(slab + 2 * at) =
          __floats2bfloat162_rn(pairs[j].x, pairs[j].y);
    }
  }
}

template <int kPairs>
__global__ void __launch_bounds__(kWarps * 32)
    write_kv_kernel(const __grid_constant__ WriteKvCall call) {
  __shared__ float2 staged[kWarps][kPairs * kPairDimensions / 2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x;
  const int index = blockIdx.y * kWarps + warp;
  const int units = call.heads + (call.has_kv ? 2 * call.kv.kv_heads : 0);
  const int size = call.kv.head_size;
  allow_next_kernel();
  if (index >= units) return;
  // The tables of the pass were there before its first kernel.
  int token = 0;
  std::byte* slab = index >= call.heads ? page_of(call, row, token) : nullptr;
  wait_for_previous_kernel();
  const Unit unit = unit_of(call, row, index);
  // All loads before the first use.
  float2 pairs[kPairs] = {};
  Angles angles[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i < size) pairs[j] = *reinterpret_cast<const float2*>(unit.from + i);
    if (unit.rotated) angles[j] = angles_of(call, row, i);
  }
  normalise(call, unit, pairs, lane);
  if (unit.rotated) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) staged[warp][lane + 32 * j] = pairs[j];
    __syncwarp();
    const float* head = &staged[warp][0].x;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = 2 * (lane + 32 * j);
      if (i >= size) break;
      pairs[j] = make_float2(rotated(call, head, i, angles[j].cosine.x, angles[j].sine.x),
                             rotated(call, head, i + 1, angles[j].cosine.y, angles[j].sine.y));
    }
    if (call.kv.type == KvType::fp8) rotate_for_fp8(pairs, size & -size, lane);
  }
  if (index >= call.heads) {
    if (slab != nullptr) write_page(call, pairs, slab, token, index - call.heads, lane);
    return;
  }
  __nv_bfloat16* to = call.query + (static_cast<std::size_t>(row) * call.heads + index) * size;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i < size) {
      *reinterpret_cast<__nv_bfloat162*>(to + i) = __floats2bfloat162_rn(pairs[j].x, pairs[j].y);
    }
  }
}

const void* kernel_for(int head_size) {
  if (head_size <= kPairDimensions) return reinterpret_cast<const void*>(write_kv_kernel<1>);
  return head_size <= 2 * kPairDimensions ? reinterpret_cast<const void*>(write_kv_kernel<2>)
                                          : reinterpret_cast<const void*>(write_kv_kernel<4>);
}

}  // namespace

Status launch_write_heads(const Launch& launch, const WriteKvCall& call) {
  const int units = call.heads + (call.has_kv ? 2 * call.kv.kv_heads : 0);
  const dim3 grid(call.rows, (units + kWarps - 1) / kWarps);
  return launch_dependent(launch, kernel_for(call.kv.head_size), "writing keys and values",
                          {grid, dim3(kWarps * 32)}, call);
}

}  // namespace quire::cuda
