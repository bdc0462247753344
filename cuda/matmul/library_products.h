#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <cuda_bf16.h>

#include <quire/status.h>

#include "base/launch.h"

namespace quire::cuda {

// out = scale * (input weights^T) + (adds ? out : 0), for row-major matrices; of two matrices of
// one shape, the outputs of the second one behind those of the first.
struct LibraryCall {
  const __nv_bfloat16* weights = nullptr;  // [outputs][weight_stride], `columns` of them
  std::int64_t weight_stride = 0;
  std::int64_t second = 0;  // elements from `weights` to those of the second matrix, > 0; 0: none
  const __nv_bfloat16* input = nullptr;  // [rows][columns]
  int rows = 0;
  std::int64_t outputs = 0, columns = 0;
  void* out = nullptr;  // [rows][out_stride] of float, or of bfloat16
  bool out_float = true;
  std::int64_t out_stride = 0;
  float scale = 1;
  bool adds = false;
  std::byte* workspace = nullptr;  // 256-byte aligned
  std::size_t workspace_bytes = 0;
};

// Products by cuBLASLt, which is opened at run time and may be missing. Plans are made once for
// each shape and kept; numbers of rows that are close share a kernel, since loading one takes
// milliseconds. The sums of a row may depend on the number of rows. One thread at a time.
class LibraryProducts {
 public:
  // Null if there is no usable library.
  static std::unique_ptr<LibraryProducts> open();
  virtual ~LibraryProducts() = default;

  virtual Status multiply(const Launch& launch, const LibraryCall& call) = 0;
};

}  // namespace quire::cuda
