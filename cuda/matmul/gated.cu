#include "matmul/gated.h"

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void gate(Epilogue epilogue, const float* values, int width, __nv_bfloat16* out,
                     std::int64_t out_stride) {
  wait_for_previous_kernel();
  const std::int64_t row = blockIdx.y;
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= width) return;
  const float* from = values + row * 2 * width + i;
  out[row * out_stride + i] = __float2bfloat16_rn(gate_value(epilogue, from[0]) * from[width]);
}

__global__ void gate_vectors(Epilogue epilogue, const __nv_bfloat16* others, int width,
                             __nv_bfloat16* out, std::int64_t out_stride) {
  wait_for_previous_kernel();
  const std::int64_t row = blockIdx.y;
  const int i = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * 8;
  if (i >= width) return;
  auto* place = reinterpret_cast<uint4*>(out + row * out_stride + i);
  uint4 gates = *place;
  uint4 factors = *reinterpret_cast<const uint4*>(others + row * width + i);
  auto* gate = reinterpret_cast<__nv_bfloat162*>(&gates);
  auto* factor = reinterpret_cast<const __nv_bfloat162*>(&factors);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 x = __bfloat1622float2(gate[k]), y = __bfloat1622float2(factor[k]);
    gate[k] =
        __floats2bfloat162_rn(gate_value(epilogue, x.x) * y.x, gate_value(epilogue, x.y) * y.y);
  }
  *place = gates;
}

// Blocks for `units` values of a row.
dim3 blocks_of(int units, int rows) {
  return dim3(static_cast<unsigned>((units + kThreads - 1) / kThreads),
              static_cast<unsigned>(rows));
}

}  // namespace

Status apply_gate(const Launch& launch, Epilogue epilogue, const float* values, int rows, int width,
                  __nv_bfloat16* out, std::int64_t out_stride) {
  gate<<<blocks_of(width, rows), kThreads, 0, launch.stream>>>(epilogue, values, width, out,
                                                               out_stride);
  return status_of(cudaGetLastError(), "gate");
}

Status apply_gate_in_place(const Launch& launch, Epilogue epilogue, const __nv_bfloat16* others,
                           int rows, int width, __nv_bfloat16* out, std::int64_t out_stride) {
  gate_vectors<<<blocks_of(width / 8, rows), kThreads, 0, launch.stream>>>(epilogue, others, width,
                                                                           out, out_stride);
  return status_of(cudaGetLastError(), "gate");
}

}  // namespace quire::cuda
