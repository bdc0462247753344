#include "matmul/tensor_map.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "base/launch.h"

namespace quire::cuda {

Result<CUtensorMap> tensor_map(const __nv_bfloat16* matrix, std::int64_t rows, std::int64_t columns,
                               int box_rows) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  Status status = status_of(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &found),
                            "cuTensorMapEncodeTiled");
  if (!status) return status;
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    return error(StatusCode::device_error, "the driver has no cuTensorMapEncodeTiled");
  }
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns) * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<__nv_bfloat16*>(matrix), sizes, strides,
      box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return error(StatusCode::device_error, "tensor map of {} x {}: error {}", rows, columns,
                 static_cast<int>(result));
  }
  return map;
}

}  // namespace quire::cuda
