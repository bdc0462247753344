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

}  // namespace

Status apply_gate(const Launch& launch, Epilogue epilogue, const float* values, int rows, int width,
                  __nv_bfloat16* out, std::int64_t out_stride) {
  const dim3 grid(static_cast<unsigned>((width + kThreads - 1) / kThreads),
                  static_cast<unsigned>(rows));
  gate<<<grid, kThreads, 0, launch.stream>>>(epilogue, values, width, out, out_stride);
  return status_of(cudaGetLastError(), "gate");
}

}  // namespace quire::cuda
