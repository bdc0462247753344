#include <bit>
#include <cstdint>

#include "attention/page_kernels.h"
#include "attention/write_place.cuh"
#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

// Eight dimensions of a head, a thread's work: from 4 l on in each half, for the l-th of the
// head's size / 8 neighbouring threads. RoPE turns one half with the other.
struct Eight {
  float4 low, high;

  __device__ static Eight load(const float* from, int half) {
    return {*reinterpret_cast<const float4*>(from), *reinterpret_cast<const float4*>(from + half)};
  }
  __device__ float square() const {
    const float low_sum = fmaf(low.x, low.x, fmaf(low.y, low.y, fmaf(low.z, low.z, low.w * low.w)));
    return fmaf(high.x, high.x,
                fmaf(high.y, high.y, fmaf(high.z, high.z, fmaf(high.w, high.w, low_sum))));
  }
};

__device__ float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ float4 operator*(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ float4 operator*(float4 a, float b) {
  return make_float4(a.x * b, a.y * b, a.z * b, a.w * b);
}

__device__ Eight rotate(const Eight& x, const float4& cosine, const float4& sine) {
  return {x.low * cosine + x.high * sine * -1.0f, x.high * cosine + x.low * sine};
}

// By all threads of a head alike.
__device__ Eight normalise(const WriteKvCall& call, Eight x, const float* weight, int lanes) {
  float sum = x.square();
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  const float factor = rsqrtf(sum / call.kv.head_size + call.epsilon);
  x = {x.low * factor, x.high * factor};
  if (weight == nullptr) return x;
  const Eight scale = Eight::load(weight, call.kv.head_size / 2);
  return {x.low * scale.low, x.high * scale.high};
}

__device__ void store_bfloat16(void* to, const float4& four) {
  const __nv_bfloat162 pairs[2] = {__floats2bfloat162_rn(four.x, four.y),
                                   __floats2bfloat162_rn(four.z, four.w)};
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(pairs);
}
__device__ void store_half(void* to, const float4& four) {
  const __half2 pairs[2] = {__halves2half2(clamped_half(four.x), clamped_half(four.y)),
                            __halves2half2(clamped_half(four.z), clamped_half(four.w))};
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(pairs);
}

// What a thread does for one row: of each head it takes on, the dimensions from `offset` on.
struct RowWriter {
  const WriteKvCall& call;
  int row, offset, lanes;
  int kv_heads;
  int token;        // of its page
  std::byte* slab;  // of the page; null if it was given back
  float4 cosine = {}, sine = {};

  // Reads what the pass's tables say, which were there before its first kernel.
  __device__ RowWriter(const WriteKvCall& call, int row, int lanes)
      : call(call),
        row(row),
        offset(4 * (threadIdx.x & (lanes - 1))),
        lanes(lanes),
        kv_heads(call.has_kv ? call.kv.kv_heads : 0),
        slab(call.has_kv ? page_of(call, row, token) : nullptr) {}

  __device__ int half() const { return call.kv.head_size / 2; }
  __device__ int units() const { return call.heads + 2 * kv_heads; }

  __device__ void load_angles() {
    if (call.rope_dimensions == 0) return;
    const std::size_t place = static_cast<std::size_t>(row) * half() + offset;
    cosine = *reinterpret_cast<const float4*>(call.cosine + place);
    sine = *reinterpret_cast<const float4*>(call.sine + place);
  }

  // Of head `unit` of the query's, the keys' and the values' heads, in this order.
  __device__ Eight compute(int unit) const {
    const int size = call.kv.head_size;
    const std::size_t first = static_cast<std::size_t>(row) * units() + unit;
    Eight x = Eight::load(call.projected + first * size + offset, half());
    const bool is_query = unit < call.heads, is_value = unit >= call.heads + kv_heads;
    const int head = is_query ? unit : is_value ? unit - call.heads - kv_heads : unit - call.heads;
    const float* bias = is_query ? call.q_bias : is_value ? call.v_bias : call.k_bias;
    if (bias != nullptr) {
      const Eight more = Eight::load(bias + head * size + offset, half());
      x = {x.low + more.low, x.high + more.high};
    }
    if (call.norm == QkNormKind::per_head) {
      const float* weight = is_query ? call.q_norm : call.k_norm;
      const Eight normal = normalise(call, x, weight == nullptr ? nullptr : weight + offset, lanes);
      if (!is_value) x = normal;
    }
    return call.rope_dimensions > 0 && !is_value ? rotate(x, cosine, sine) : x;
  }

  __device__ void store(int unit, const Eight& x) const {
    const int size = call.kv.head_size;
    if (unit < call.heads) {
      __nv_bfloat16* to =
          call.query + (static_cast<std::size_t>(row) * call.heads + unit) * size + offset;
      store_bfloat16(to, x.low);
      store_bfloat16(to + half(), x.high);
      return;
    }
    if (slab == nullptr) return;
    const int place = ((unit - call.heads) * call.kv.page_size + token) * size + offset;
    std::byte* to = slab + static_cast<std::size_t>(place) * 2;
    if (call.kv.type == KvType::f16) {
      store_half(to, x.low);
      store_half(to + 2 * half(), x.high);
    } else {
      store_bfloat16(to, x.low);
      store_bfloat16(to + 2 * half(), x.high);
    }
  }
};

// A row's heads, 2^shift threads for each.
__global__ void __launch_bounds__(kThreads)
    write_vectors_kernel(const __grid_constant__ WriteKvCall call, int shift) {
  allow_next_kernel();
  RowWriter writer(call, blockIdx.x, 1 << shift);
  wait_for_previous_kernel();
  writer.load_angles();
  const int total = writer.units() << shift;
  // Whole warps take part to the end, for the sums of the norm.
  const int end = (total + 31) / 32 * 32;
#pragma unroll 4
  for (int i = blockIdx.y * kThreads + threadIdx.x; i < end; i += gridDim.y * kThreads) {
    const int unit = min(i, total - 1) >> shift;
    const Eight x = writer.compute(unit);
    if (i < total) writer.store(unit, x);
  }
}

bool aligned(const float* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(float4) == 0;
}

}  // namespace

bool can_write_vectors(const WriteKvCall& call) {
  const int size = call.kv.head_size;
  const KvType type = call.kv.type;
  return (type == KvType::bf16 || type == KvType::f16) && size >= 16 &&
         std::has_single_bit(static_cast<unsigned>(size)) &&
         (call.rope_dimensions == size || call.rope_dimensions == 0) &&
         call.norm != QkNormKind::whole && aligned(call.projected) && aligned(call.cosine) &&
         aligned(call.sine) && aligned(call.q_bias) && aligned(call.k_bias) &&
         aligned(call.v_bias) && aligned(call.q_norm) && aligned(call.k_norm);
}

Status launch_write_vectors(const Launch& launch, const WriteKvCall& call) {
  const int lanes = call.kv.head_size / 8;
  const int units = call.heads + (call.has_kv ? 2 * call.kv.kv_heads : 0);
  // Few rows are spread over as many threads as there is work for; of many, a thread takes several
  // heads of one row.
  const int blocks = (units * lanes + kThreads - 1) / kThreads;
  const dim3 grid(call.rows, call.rows * blocks <= 8 * launch.multiprocessors ? blocks : 1);
  return launch_dependent(launch, reinterpret_cast<const void*>(write_vectors_kernel),
                          "writing keys and values", {grid, dim3(kThreads)}, call,
                          std::countr_zero(static_cast<unsigned>(lanes)));
}

}  // namespace quire::cuda
