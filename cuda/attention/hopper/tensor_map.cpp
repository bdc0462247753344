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

// Sizes in elements, strides in bytes, from the second dimension on.
template <unsigned kRank>
Status encode_map(CUtensorMap& map, const void* base, CUtensorMapDataType type,
                  const cuuint64_t (&sizes)[kRank], const cuuint64_t (&strides)[kRank - 1],
                  const cuuint32_t (&box)[kRank], int row_bytes, const char* what) {
  Encode encode = nullptr;
  if (Status status = find_encode(encode); !status) return status;
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  const CUresult result =
      encode(&map, type, kRank, const_cast<void*>(base), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return error(StatusCode::device_error, "the tensor map of {}: driver error {}", what,
                 static_cast<int>(result));
  }
  return {};
}

}  // namespace

int box_tokens(int page_size, int block_keys) {
  int tokens = 16;
  while (tokens * 2 <= page_size && block_keys % (tokens * 2) == 0) tokens *= 2;
  return tokens;
}

Status query_map(CUtensorMap& map, const __nv_bfloat16* queries, int rows, int heads, int head_size,
                 const QueryBox& query_box, int row_bytes) {
  constexpr int kBytes = sizeof(__nv_bfloat16);
  const cuuint64_t head_bytes = static_cast<cuuint64_t>(head_size) * kBytes;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(head_size), static_cast<cuuint64_t>(heads),
                              static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {head_bytes, heads * head_bytes};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(row_bytes / kBytes),
                            static_cast<cuuint32_t>(query_box.heads),
                            static_cast<cuuint32_t>(query_box.rows)};
  return encode_map<3>(map, queries, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, sizes, strides, box,
                       row_bytes, "queries");
}

Status kv_map(CUtensorMap& map, const KvView& kv, int box_tokens, int row_bytes) {
  // The view does not say how many pages there are; page tables name only those that exist.
  constexpr cuuint64_t kManyPages = 0x7fffffff;
  const int bytes = kv_element_bytes(kv.type);
  const cuuint64_t head_bytes = static_cast<cuuint64_t>(kv.head_size) * bytes;
  const cuuint32_t elements = static_cast<cuuint32_t>(row_bytes / bytes);
  const cuuint64_t parts = head_bytes / row_bytes;
  const cuuint64_t sizes[] = {elements, kAtomRows, parts,
                              static_cast<cuuint64_t>(2 * kv.kv_heads) * kv.page_size / kAtomRows,
                              kManyPages};
  const cuuint64_t strides[] = {head_bytes, static_cast<cuuint64_t>(row_bytes),
                                kAtomRows * head_bytes, kv.page_bytes};
  const cuuint32_t box[] = {elements, kAtomRows, static_cast<cuuint32_t>(parts),
                            static_cast<cuuint32_t>(box_tokens / kAtomRows), 1};
  return encode_map<5>(
      map, kv.base + kv.layer_offset,
      bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, sizes, strides,
      box, row_bytes, "keys and values");
}

}  // namespace quire::cuda::hopper
