#pragma once

#include "matmul/product.h"

namespace quire::cuda {

// out[row][i] = gate(values[row][i]) * values[row][width + i]: what the gated epilogues do, for
// values [rows][2 * width] in memory. `epilogue`: gated_silu or gated_gelu_tanh.
Status apply_gate(const Launch& launch, Epilogue epilogue, const float* values, int rows, int width,
                  __nv_bfloat16* out, std::int64_t out_stride);

}  // namespace quire::cuda
