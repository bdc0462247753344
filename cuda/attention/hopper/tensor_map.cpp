#include "attention/hopper/tensor_map.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "base/launch.h"

namespace quire::cuda::hopper {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// From the driver that the runtime has loaded, so that the library links without it.
Status find_encode(Encode& encode) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const Status status =
      status_of(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                 cudaEnableDefault, &found),
                "cuTensorMapEncodeTiled");
  if (!status) return status;
  if (found != cudaDriverEntryPointSuccess) {
    return error(StatusCode::device_error, "cuTensorMapEncodeTiled: not in this driver ({})",
                 static_cast<int>(found));
  }
  encode = reinterpret_cast<Encode>(function);
  return {};
}

// Strides in bytes, from the second dimension on.
template <unsigned kRank>
Status encode_map(CUtensorMap& map, const void* base, const cuuint64_t (&sizes)[kRank],
                  const cuuint64_t (&strides)[kRank - 1], const cuuint32_t (&box)[kRank],
                  const char* what) {
  Encode encode = nullptr;
  if (Status status = find_encode(encode); !status) return status;
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<void*>(base), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return error(StatusCode::device_error, "the tensor map of {}: driver error {}", what,
                 static_cast<int>(result));
  }
  return {};
}

}  // namespace

Status query_map(CUtensorMap& map, const __nv_bfloat16* queries, int rows, int heads, int head_size,
                 int box_rows) {
  const cuuint64_t row_bytes = static_cast<cuuint64_t>(head_size) * sizeof(__nv_bfloat16);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(head_size), static_cast<cuuint64_t>(heads),
                              static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {row_bytes, heads * row_bytes};
  const cuuint32_t box[] = {kBoxElements, 1, static_cast<cuuint32_t>(box_rows)};
  return encode_map<3>(map, queries, sizes, strides, box, "queries");
}

Status kv_map(CUtensorMap& map, const KvView& kv, int box_tokens) {
  // The view does not say how many pages there are; page tables name only those that exist.
  constexpr cuuint64_t kManyPages = 0x7fffffff;
  const cuuint64_t row_bytes = static_cast<cuuint64_t>(kv.head_size) * sizeof(__nv_bfloat16);
  const cuuint64_t parts = kv.head_size / kBoxElements;
  const cuuint64_t sizes[] = {kBoxElements, kAtomRows, parts,
                              static_cast<cuuint64_t>(2 * kv.kv_heads) * kv.page_size / kAtomRows,
                              kManyPages};
  const cuuint64_t strides[] = {row_bytes, kBoxElements * sizeof(__nv_bfloat16),
                                kAtomRows * row_bytes, kv.page_bytes};
  const cuuint32_t box[] = {kBoxElements, kAtomRows, static_cast<cuuint32_t>(parts),
                            static_cast<cuuint32_t>(box_tokens / kAtomRows), 1};
  return encode_map<5>(map, kv.base + kv.layer_offset, sizes, strides, box, "keys and values");
}

}  // namespace quire::cuda::hopper
