#include "operations/mixture_kernels.h"

#include <cmath>

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float logit_of(const float* logits, int expert) {
  const float value = logits[expert];
  return value == value ? value : -INFINITY;
}

// The best expert behind `before` in the order (higher logit, then lower index); -1: the first one.
__device__ int next_best(const float* logits, int experts, int before) {
  const float bound = before >= 0 ? logit_of(logits, before) : 0.0f;
  int best = -1;
  float best_value = 0;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 32) {
    const float value = logit_of(logits, e);
    if (before >= 0 && (value > bound || (value == bound && e <= before))) continue;
    if (best < 0 || value > best_value) {
      best = e;
      best_value = value;
    }
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const int other = __shfl_xor_sync(0xffffffffu, best, offset);
    const float value = __shfl_xor_sync(0xffffffffu, best_value, offset);
    const bool better =
        other >= 0 && (best < 0 || value > best_value || (value == best_value && other < best));
    if (better) {
      best = other;
      best_value = value;
    }
  }
  return best;
}

// One warp for each row.
__global__ void choose_kernel(const float* logits, int experts, int top_k, bool renormalise,
                              std::int32_t* chosen, float* weights) {
  const float* row = logits + std::int64_t{blockIdx.x} * experts;
  std::int32_t* to = chosen + std::int64_t{blockIdx.x} * top_k;
  float* weight = weights + std::int64_t{blockIdx.x} * top_k;
  int expert = -1;
  float largest = 0, sum = 0;
  for (int slot = 0; slot < top_k; ++slot) {
    expert = next_best(row, experts, expert);
    if (slot == 0) largest = logit_of(row, expert);
    sum += expf(logit_of(row, expert) - largest);
    if (threadIdx.x == 0) to[slot] = expert;
  }
  if (!renormalise) {
    sum = 0;
    for (int e = 0; e < experts; ++e) sum += expf(logit_of(row, e) - largest);
  }
  __syncwarp();
  for (int slot = static_cast<int>(threadIdx.x); slot < top_k; slot += 32) {
    weight[slot] = expf(logit_of(row, to[slot]) - largest) / sum;
  }
}

__global__ void gather_kernel(const __nv_bfloat16* in, const std::int32_t* places, int divisor,
                              int width, __nv_bfloat16* out) {
  const std::int64_t from = std::int64_t{places[blockIdx.x] / divisor} * width;
  const std::int64_t to = std::int64_t{blockIdx.x} * width;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) out[to + i] = in[from + i];
}

__global__ void add_places_kernel(const float* in, const std::int32_t* places, const float* weights,
                                  int top_k, int width, float* sums) {
  const std::int32_t place = places[blockIdx.x];
  const float weight = weights[place];
  const std::int64_t from = std::int64_t{blockIdx.x} * width;
  const std::int64_t to = std::int64_t{place / top_k} * width;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    sums[to + i] += weight * in[from + i];
  }
}

}  // namespace

Status choose_experts(const Launch& launch, const float* logits, int rows, int experts, int top_k,
                      bool renormalise, std::int32_t* chosen, float* weights) {
  choose_kernel<<<static_cast<unsigned>(rows), 32, 0, launch.stream>>>(
      logits, experts, top_k, renormalise, chosen, weights);
  return status_of(cudaGetLastError(), "choose_experts");
}

Status gather_places(const Launch& launch, const __nv_bfloat16* in, const std::int32_t* places,
                     int count, int divisor, int width, __nv_bfloat16* out) {
  gather_kernel<<<static_cast<unsigned>(count), kThreads, 0, launch.stream>>>(in, places, divisor,
                                                                              width, out);
  return status_of(cudaGetLastError(), "gather_places");
}

Status add_places(const Launch& launch, const float* in, const std::int32_t* places,
                  const float* weights, int count, int top_k, int width, float* sums) {
  add_places_kernel<<<static_cast<unsigned>(count), kThreads, 0, launch.stream>>>(
      in, places, weights, top_k, width, sums);
  return status_of(cudaGetLastError(), "add_places");
}

}  // namespace quire::cuda
