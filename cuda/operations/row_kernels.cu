#include "operations/row_kernels.h"

#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

// Sum over the block, in an order that depends on nothing but the number of threads.
__device__ float block_sum(float value) {
  __shared__ float sums[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += sums[warp];
  __syncthreads();
  return sum;
}

// 1 / sqrt(mean of squares + epsilon) of a row; called by the whole block.
__device__ float norm_factor(const float* x, int width, float epsilon) {
  float squares = 0;
  for (int i = threadIdx.x; i < width; i += kThreads) squares += x[i] * x[i];
  return rsqrtf(block_sum(squares) / static_cast<float>(width) + epsilon);
}

// One block for each row.
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const float* in, const std::int32_t* rows, int width, const float* weight,
                float epsilon, __nv_bfloat16* out) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const std::int64_t row = rows != nullptr ? rows[blockIdx.x] : static_cast<int>(blockIdx.x);
  const float* x = in + row * width;
  __nv_bfloat16* to = out + std::int64_t{blockIdx.x} * width;
  if (weight == nullptr) {
    for (int i = threadIdx.x; i < width; i += kThreads) to[i] = __float2bfloat16_rn(x[i]);
    return;
  }
  const float factor = norm_factor(x, width, epsilon);
  for (int i = threadIdx.x; i < width; i += kThreads) {
    to[i] = __float2bfloat16_rn(x[i] * factor * weight[i]);
  }
}

// The same for widths that are multiples of 4 and at most 4 * kThreads * kGroups: a row stays in
// registers.
template <int kGroups>
__global__ void __launch_bounds__(kThreads)
    norm_kernel_in_registers(const float* in, const std::int32_t* rows, int width,
                             const float* weight, float epsilon, __nv_bfloat16* out) {
  allow_next_kernel();
  float4 weights[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int i = threadIdx.x + g * kThreads;
    weights[g] = weight != nullptr && i < width / 4 ? reinterpret_cast<const float4*>(weight)[i]
                                                    : float4{1, 1, 1, 1};
  }
  wait_for_previous_kernel();
  const std::int64_t row = rows != nullptr ? rows[blockIdx.x] : static_cast<int>(blockIdx.x);
  const float4* x = reinterpret_cast<const float4*>(in + row * width);
  auto* to = reinterpret_cast<uint2*>(out + std::int64_t{blockIdx.x} * width);
  float4 values[kGroups];
  float squares = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int i = threadIdx.x + g * kThreads;
    values[g] = i < width / 4 ? x[i] : float4{0, 0, 0, 0};
    squares += values[g].x * values[g].x + values[g].y * values[g].y + values[g].z * values[g].z +
               values[g].w * values[g].w;
  }
  float factor = 1;
  if (weight != nullptr) {
    factor = rsqrtf(block_sum(squares) / static_cast<float>(width) + epsilon);
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int i = threadIdx.x + g * kThreads;
    if (i >= width / 4) continue;
    const float4 w = weights[g];
    const __nv_bfloat162 low =
        __floats2bfloat162_rn(values[g].x * factor * w.x, values[g].y * factor * w.y);
    const __nv_bfloat162 high =
        __floats2bfloat162_rn(values[g].z * factor * w.z, values[g].w * factor * w.w);
    to[i] = {*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high)};
  }
}

__global__ void __launch_bounds__(kThreads)
    add_kernel(const float* in, int width, const float* weight, float epsilon, float scale,
               float* hidden) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const float* x = in + std::int64_t{blockIdx.x} * width;
  float* to = hidden + std::int64_t{blockIdx.x} * width;
  const float factor = weight != nullptr ? norm_factor(x, width, epsilon) : 1.0f;
  for (int i = threadIdx.x; i < width; i += kThreads) {
    const float value = weight != nullptr ? x[i] * factor * weight[i] : x[i];
    to[i] += scale * value;
  }
}

__global__ void rotation_kernel(const std::int32_t* positions, const std::int32_t* choices,
                                int half, RotationArgs table) {
  const int row = blockIdx.x;
  const int choice = choices[row] == 1 ? 1 : 0;
  const float position = static_cast<float>(positions[row]);
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float angle = position * table.frequency[choice][i];
    const std::int64_t at = std::int64_t{row} * half + i;
    table.cosine[at] = cosf(angle) * table.magnitude[choice];
    table.sine[at] = sinf(angle) * table.magnitude[choice];
  }
}

__global__ void scale_kernel(float* x, std::int64_t count, std::int64_t stride, float scale,
                             float cap) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float& value = x[std::int64_t{blockIdx.y} * stride + i];
  value = cap > 0 ? cap * tanhf(scale * value / cap) : scale * value;
}

__device__ float activated(Activation activation, float gate, float up) {
  switch (activation) {
    case Activation::silu:
      return gate / (1 + expf(-gate)) * up;
    case Activation::gelu_tanh: {
      const float inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
      return 0.5f * gate * (1 + tanhf(inner)) * up;
    }
    case Activation::swiglu_clamped: {
      constexpr float kLimit = 7, kAlpha = 1.702f;
      const float g = fminf(gate, kLimit);
      const float u = fminf(fmaxf(up, -kLimit), kLimit);
      return g / (1 + expf(-kAlpha * g)) * (u + 1);
    }
  }
  return 0;
}

__global__ void activate_kernel(Activation activation, const float* gate_up, int ff,
                                const std::int32_t* places, __nv_bfloat16* out) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= ff) return;
  const float* row = gate_up + std::int64_t{blockIdx.y} * 2 * ff;
  const std::int64_t place = places != nullptr ? places[blockIdx.y] : static_cast<int>(blockIdx.y);
  out[place * ff + i] = __float2bfloat16_rn(activated(activation, row[i], row[ff + i]));
}

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

}  // namespace

Status norm_rows(const Launch& launch, const float* in, const std::int32_t* rows, int count,
                 int width, const RmsNorm& norm, __nv_bfloat16* out) {
  if (count == 0) return {};
  const bool in_registers = width % 4 == 0 && width <= 16 * kThreads;
  const auto kernel = !in_registers           ? norm_kernel
                      : width <= 4 * kThreads ? norm_kernel_in_registers<1>
                                              : norm_kernel_in_registers<4>;
  return launch_dependent(launch, reinterpret_cast<const void*>(kernel), "norm_rows",
                          {dim3(static_cast<unsigned>(count)), dim3(kThreads)}, in, rows, width,
                          norm.weight, norm.epsilon, out);
}

Status add_rows(const Launch& launch, const float* x, int rows, int width, const RmsNorm& norm,
                float scale, float* hidden) {
  if (rows == 0) return {};
  return launch_dependent(launch, reinterpret_cast<const void*>(add_kernel), "add_rows",
                          {dim3(static_cast<unsigned>(rows)), dim3(kThreads)}, x, width,
                          norm.weight, norm.epsilon, scale, hidden);
}

Status rotation_rows(const Launch& launch, const std::int32_t* positions,
                     const std::int32_t* choices, int rows, const RotationArgs& table) {
  if (rows == 0 || table.dimensions == 0) return {};
  rotation_kernel<<<static_cast<unsigned>(rows), 128, 0, launch.stream>>>(
      positions, choices, table.dimensions / 2, table);
  return status_of(cudaGetLastError(), "rotation_rows");
}

Status scale_logits(const Launch& launch, float* x, int rows, std::int64_t count,
                    std::int64_t stride, float scale, float cap) {
  if (rows == 0 || count == 0) return {};
  const dim3 grid(blocks_of(count), static_cast<unsigned>(rows));
  return launch_dependent(launch, reinterpret_cast<const void*>(scale_kernel), "scale_logits",
                          {grid, dim3(kThreads)}, x, count, stride, scale, cap);
}

Status activate_rows(const Launch& launch, Activation activation, const float* gate_up, int rows,
                     int ff, const std::int32_t* places, __nv_bfloat16* out) {
  if (rows == 0) return {};
  const dim3 grid(blocks_of(ff), static_cast<unsigned>(rows));
  return launch_dependent(launch, reinterpret_cast<const void*>(activate_kernel), "activate_rows",
                          {grid, dim3(kThreads)}, activation, gate_up, ff, places, out);
}

Status check_kernels() {
  cudaFuncAttributes attributes;
  return status_of(cudaFuncGetAttributes(&attributes, norm_kernel), "cudaFuncGetAttributes");
}

}  // namespace quire::cuda
