#include <cuda_fp16.h>

#include "attention/page_kernels.h"
#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxHead = 256;
constexpr int kMaxPairs = kMaxHead / 64;  // of a lane

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

// 1 / root mean square of what the norm goes over.
__device__ float inverse_norm(const WriteKvCall& call, const Unit& unit, int lane) {
  const bool whole = call.norm == QkNormKind::whole;
  const float* from = whole ? unit.part : unit.from;
  const float* bias = unit.bias == nullptr || whole ? unit.bias : unit.bias + unit.offset;
  const int count = whole ? unit.part_size : call.kv.head_size;
  float sum = 0;
  for (int i = lane; i < count; i += 32) {
    const float x = from[i] + (bias == nullptr ? 0.0f : bias[i]);
    sum = fmaf(x, x, sum);
  }
  return rsqrtf(warp_sum(sum) / count + call.epsilon);
}

// Bias and norm, to the warp's shared memory.
__device__ void stage(const WriteKvCall& call, const Unit& unit, float* to, int lane) {
  const int size = call.kv.head_size;
  const bool normalised = unit.rotated && call.norm != QkNormKind::none;
  const float factor = normalised ? inverse_norm(call, unit, lane) : 1;
  const float* weight = normalised ? unit.weight : nullptr;
  if (weight != nullptr && call.norm == QkNormKind::whole) weight += unit.offset;
  for (int i = lane; i < size; i += 32) {
    const float x = unit.from[i] + (unit.bias == nullptr ? 0.0f : unit.bias[unit.offset + i]);
    to[i] = x * factor * (weight == nullptr ? 1.0f : weight[i]);
  }
  __syncwarp();
}

__device__ float rotated(const WriteKvCall& call, const float* staged, int row, int i) {
  const int half = call.rope_dimensions / 2;
  if (i >= 2 * half) return staged[i];
  const int angle = i < half ? i : i - half;
  const float cosine = call.cosine[static_cast<std::size_t>(row) * half + angle];
  const float sine = call.sine[static_cast<std::size_t>(row) * half + angle];
  return i < half ? staged[i] * cosine - staged[i + half] * sine
                  : staged[i] * cosine + staged[i - half] * sine;
}

// Where a token's keys or values lie; null if its page was given back.
__device__ std::byte* page_of(const WriteKvCall& call, int row, int& token) {
  const int position = call.sequences.row_position[row];
  const int sequence = call.sequences.row_sequence[row];
  const int page =
      call.sequences.pages[call.sequences.first_page[sequence] + position / call.kv.page_size];
  token = position % call.kv.page_size;
  return page < 0 ? nullptr
                  : call.kv.base + static_cast<std::size_t>(page) * call.kv.page_bytes +
                        call.kv.layer_offset;
}

// float16 keeps what passes its range at the largest number: an infinite key would make NaN.
__device__ __half clamped_half(float x) {
  return __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
}

// Pairs 2 (lane + 32 j) of a head to its place, token `token` of a page; `head` counts the keys'
// heads, then the values'.
__device__ void write_page(const WriteKvCall& call, const float2 (&pairs)[kMaxPairs],
                           std::byte* slab, int token, int head, int lane) {
  const KvView& kv = call.kv;
  const std::size_t place = static_cast<std::size_t>(head) * kv.page_size + token;
  float scale = 0, inverse = 0;
  if (kv.type == KvType::int8) {
    float largest = 0;
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
      largest = fmaxf(largest, fmaxf(fabsf(pairs[j].x), fabsf(pairs[j].y)));
    }
    largest = warp_maximum(largest);
    scale = largest / 127;
    inverse = largest > 0 ? 127 / largest : 0;
    const std::size_t tokens = static_cast<std::size_t>(2) * kv.kv_heads * kv.page_size;
    if (lane == 0) reinterpret_cast<float*>(slab + tokens * kv.head_size)[place] = scale;
  }
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i >= kv.head_size) break;
    const std::size_t at = place * kv.head_size + i;
    if (kv.type == KvType::int8) {
      const char2 two = {static_cast<signed char>(__float2int_rn(pairs[j].x * inverse)),
                         static_cast<signed char>(__float2int_rn(pairs[j].y * inverse))};
      *reinterpret_cast<char2*>(slab + at) = two;
    } else if (kv.type == KvType::f16) {
      *reinterpret_cast<__half2*>(slab + 2 * at) =
          __halves2half2(clamped_half(pairs[j].x), clamped_half(pairs[j].y));
    } else {
      *reinterpret_cast<__nv_bfloat162*>(slab + 2 * at) =
          __floats2bfloat162_rn(pairs[j].x, pairs[j].y);
    }
  }
}

__global__ void __launch_bounds__(kWarps * 32)
    write_kv_kernel(const __grid_constant__ WriteKvCall call) {
  __shared__ float staged[kWarps][kMaxHead];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x;
  const int index = blockIdx.y * kWarps + warp;
  const int units = call.heads + (call.has_kv ? 2 * call.kv.kv_heads : 0);
  allow_next_kernel();
  if (index >= units) return;
  // The tables of the pass were there before its first kernel.
  int token = 0;
  std::byte* slab = index >= call.heads ? page_of(call, row, token) : nullptr;
  wait_for_previous_kernel();
  const Unit unit = unit_of(call, row, index);
  stage(call, unit, staged[warp], lane);
  float2 pairs[kMaxPairs] = {};
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i < call.kv.head_size) {
      pairs[j] = unit.rotated ? make_float2(rotated(call, staged[warp], row, i),
                                            rotated(call, staged[warp], row, i + 1))
                              : make_float2(staged[warp][i], staged[warp][i + 1]);
    }
  }
  if (index >= call.heads) {
    if (slab != nullptr) write_page(call, pairs, slab, token, index - call.heads, lane);
    return;
  }
  __nv_bfloat16* to =
      call.query + (static_cast<std::size_t>(row) * call.heads + index) * call.kv.head_size;
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    if (i < call.kv.head_size) {
      *reinterpret_cast<__nv_bfloat162*>(to + i) = __floats2bfloat162_rn(pairs[j].x, pairs[j].y);
    }
  }
}

}  // namespace

Status launch_write_kv(const Launch& launch, const WriteKvCall& call) {
  const int units = call.heads + (call.has_kv ? 2 * call.kv.kv_heads : 0);
  const dim3 grid(call.rows, (units + kWarps - 1) / kWarps);
  return launch_dependent(launch, reinterpret_cast<const void*>(write_kv_kernel),
                          "writing keys and values", {grid, dim3(kWarps * 32)}, call);
}

}  // namespace quire::cuda
