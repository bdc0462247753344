#pragma once

#include "matmul/product.h"

namespace quire::cuda {

// Whether rows are whole vectors.
constexpr bool can_gate_in_place(std::int64_t width, std::int64_t out_stride) {
  return width % 8 == 0 && out_stride % 8 == 0;
}

// out[row][i] = gate(values[row][i]) * values[row][width + i]: what the gated epilogues do, for
// values [rows][2 * width] in memory. `epilogue`: gated_silu or gated_gelu_tanh.
Status apply_gate(const Launch& launch, Epilogue epilogue, const float* values, int rows, int width,
                  __nv_bfloat16* out, std::int64_t out_stride);

// out[row][i] = gate(out[row][i]) * others[row][i], others [rows][width], where can_gate_in_place.
Status apply_gate_in_place(const Launch& launch, Epilogue epilogue, const __nv_bfloat16* others,
                           int rows, int width, __nv_bfloat16* out, std::int64_t out_stride);

}  // namespace quire::cuda
