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

__global__ void gate_vectors(Epilogue epilogue, const __nv_bfloat16* values, int width,
                             __nv_bfloat16* out, std::int64_t out_stride) {
  wait_for_previous_kernel();
  const std::int64_t row = blockIdx.y;
  const int i = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * 8;
  if (i >= width) return;
  const __nv_bfloat16* from = values + row * 2 * width + i;
  uint4 gates = *reinterpret_cast<const uint4*>(from);
  uint4 others = *reinterpret_cast<const uint4*>(from + width);
  auto* gate = reinterpret_cast<__nv_bfloat162*>(&gates);
  auto* other = reinterpret_cast<const __nv_bfloat162*>(&others);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 x = __bfloat1622float2(gate[k]), y = __bfloat1622float2(other[k]);
    gate[k] =
        __floats2bfloat162_rn(gate_value(epilogue, x.x) * y.x, gate_value(epilogue, x.y) * y.y);
  }
  *reinterpret_cast<uint4*>(out + row * out_stride + i) = gates;
}

}  // namespace

Status apply_gate(const Launch& launch, Epilogue epilogue, const GateValues& values, int rows,
                  int width, __nv_bfloat16* out, std::int64_t out_stride) {
  if (values.narrow != nullptr) {
    const dim3 blocks(static_cast<unsigned>((width / 8 + kThreads - 1) / kThreads),
                      static_cast<unsigned>(rows));
    gate_vectors<<<blocks, kThreads, 0, launch.stream>>>(epilogue, values.narrow, width, out,
                                                         out_stride);
    return status_of(cudaGetLastError(), "gate");
  }
  const dim3 grid(static_cast<unsigned>((width + kThreads - 1) / kThreads),
                  static_cast<unsigned>(rows));
  gate<<<grid, kThreads, 0, launch.stream>>>(epilogue, values.wide, width, out, out_stride);
  return status_of(cudaGetLastError(), "gate");
}

}  // namespace quire::cuda
