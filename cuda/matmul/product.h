#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <cuda_bf16.h>

#include <quire/status.h>

#include "base/launch.h"
#include "device/packed_matrix.h"
#include "tensor/tensor_view.h"

namespace quire::cuda {

// Uploads a stored matrix (host memory) and rearranges it on the device; returns when that is done.
// Every DType that the loader knows. Errors: out_of_memory, device_error, unsupported.
Result<std::unique_ptr<PackedMatrix>> pack_matrix(const Launch& launch, const TensorView& stored,
                                                  const PackSpec& spec);
// The same for stored rows that are already in device memory (any address); `stored` describes
// them, its bytes are not read. Only queues work on the stream: `rows` must live until that is
// done.
Result<std::unique_ptr<PackedMatrix>> pack_device_rows(const Launch& launch, const std::byte* rows,
                                                       const TensorView& stored,
                                                       const PackSpec& spec);
// Device memory that such a matrix takes.
std::size_t packed_matrix_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                const PackSpec& spec);

class LibraryProducts;

// What happens to y = W x before it is stored.
enum class Epilogue {
  store_float,     // out_float[row][offset + o] = y
  store_bfloat16,  // out_bfloat16[row][offset + o] = y
  add_residual,    // out_float[row][o] += residual_scale * (y + bias[o])
  gated_silu,      // out_bfloat16[row][o] = silu(gate) * up; two matrices
  gated_gelu_tanh,
};

// Products of one input with up to three matrices that share it (Q, K, V; or gate, up).
struct ProductCall {
  int rows = 0;                          // tokens
  const __nv_bfloat16* input = nullptr;  // [rows][in]
  int matrices = 1;
  const PackedMatrix* weights[3] = {};  // each [out_i][in]
  const float* bias[3] = {};            // each [out_i], or null (added before the epilogue's rest)
  Epilogue epilogue = Epilogue::store_float;
  float residual_scale = 1;
  float* out_float = nullptr;             // [rows][out_stride]
  __nv_bfloat16* out_bfloat16 = nullptr;  // [rows][out_stride]
  std::int64_t out_stride = 0;            // elements; outputs of the matrices stand side by side
  // Outputs [first, first + count) of the only matrix (the head's blocks), the first one in column
  // 0 of the output; count 0: all.
  std::int64_t first = 0, count = 0;
  // May multiply many rows where results need not be deterministic; null: own kernels only.
  LibraryProducts* library = nullptr;
  // Of product_workspace_bytes, 256-byte aligned; zero-filled once before its first use, then used
  // by one stream.
  std::byte* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

// For calls of up to `max_rows` rows and matrices of up to `widest` outputs.
std::size_t product_workspace_bytes(int max_rows, std::int64_t widest);

// y = W x for every row; float32 sums. Errors: device_error, invalid combination: internal.
Status product(const Launch& launch, const ProductCall& call);

// Rows tokens[i] of a matrix packed with `gather`, times scale, as float32: out [rows][columns].
Status gather_rows(const Launch& launch, const PackedMatrix& table, const std::int32_t* tokens,
                   int rows, float scale, float* out);

}  // namespace quire::cuda
