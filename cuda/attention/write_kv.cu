#include <cuda_fp16.h>
#include <cuda_fp8.h>

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

// Whether dimension `i` changes its sign before the Hadamard transform: a fixed random choice.
__device__ bool flipped(int i) {
  const unsigned mixed = (i + 1) * 0x9e3779b1u;
  return (mixed ^ mixed >> 15) >> 7 & 1;
}

// The rotation of queries and keys for fp8, see write_kv: `block` dimensions at a time, a power of
// two. A warp holds pairs 2 (lane + 32 j) of the head.
__device__ void rotate_for_fp8(float2 (&pairs)[kMaxPairs], int block, int lane) {
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    const int i = 2 * (lane + 32 * j);
    const float x = flipped(i) ? -pairs[j].x : pairs[j].x;
    const float y = flipped(i + 1) ? -pairs[j].y : pairs[j].y;
    pairs[j] = make_float2(x + y, x - y);
  }
  for (int distance = 2; distance < min(block, 64); distance *= 2) {
    const int lanes = distance / 2;
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
      const float x = __shfl_xor_sync(0xffffffffu, pairs[j].x, lanes);
      const float y = __shfl_xor_sync(0xffffffffu, pairs[j].y, lanes);
      pairs[j] = lane & lanes ? make_float2(x - pairs[j].x, y - pairs[j].y)
                              : make_float2(pairs[j].x + x, pairs[j].y + y);
    }
  }
#pragma unroll
  for (int step = 1; step < kMaxPairs; step *= 2) {
    if (64 * step >= block) break;
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
      if (j & step) continue;
      const float2 low = pairs[j], high = pairs[j + step];
      pairs[j] = make_float2(low.x + high.x, low.y + high.y);
      pairs[j + step] = make_float2(low.x - high.x, low.y - high.y);
    }
  }
  const float factor = rsqrtf(static_cast<float>(block));
#pragma unroll
  for (int j = 0; j < kMaxPairs; ++j) {
    pairs[j] = make_float2(pairs[j].x * factor, pairs[j].y * factor);
  }
}

// Two neighbouring dimensions of a token's fp8 keys or values, `head` as below, to the slab.
__device__ void write_fp8(const KvView& kv, std::byte* slab, int head, int token, int dimension,
                          float2 pair) {
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

// Pairs 2 (lane + 32 j) of a head to its place, token `token` of a page; `head` counts the keys'
// heads, then the values'.
__device__ void write_page(const WriteKvCall& call, const float2 (&pairs)[kMaxPairs],
                           std::byte* slab, int token, int head, int lane) {
  const KvView& kv = call.kv;
  const std::size_t place = static_cast<std::size_t>(head) * kv.page_size + token;
  float scale = 0, inverse = 0;
  if (kv_scaled(kv.type)) {
    const float most = kv.type == KvType::int8 ? 127 : 448;
    float largest = 0;
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
      largest = fmaxf(largest, fmaxf(fabsf(pairs[j].x), fabsf(pairs[j].y)));
    }
    largest = warp_maximum(largest);
    // Below this, which is nothing beside any sum, the inverse would be infinite.
    if (largest < 1e-30f) largest = 0;
    scale = largest / most;
    inverse = largest > 0 ? most / largest : 0;
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
  if (call.kv.type == KvType::fp8 && unit.rotated) {
    rotate_for_fp8(pairs, call.kv.head_size & -call.kv.head_size, lane);
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
