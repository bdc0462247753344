#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>

#include <quire/status.h>

#include "base/launch.h"
#include "matmul/weight_kind.h"
#include "tensor/dtype.h"

namespace quire::cuda {

// A stored matrix in device memory.
struct StoredRows {
  const std::byte* data = nullptr;
  DType type = DType::f32;
  int block = 1, block_bytes = 0;  // of the type
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_bytes = 0;
  int heads = 0;  // PackSpec::unpermute_heads
};

// To rows of bfloat16, padded with zeros.
Status pack_rows(const Launch& launch, const StoredRows& rows, std::int64_t padded_rows,
                 std::int64_t padded_columns, __nv_bfloat16* to);

// To panels of records of a kind other than bfloat, padded with zero weights.
Status pack_panels(const Launch& launch, const StoredRows& rows, WeightKind kind,
                   std::int64_t panels, int blocks, std::byte* to);

}  // namespace quire::cuda
