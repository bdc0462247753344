#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quire {

// Expands `elements` stored elements (whole blocks) to float32, bit for bit as ggml's reference
// dequantisers do.
void dequantise(DType type, const std::byte* from, std::int64_t elements, float* to);

float half_to_float(std::uint16_t bits);   // IEEE binary16
std::uint16_t float_to_half(float value);  // round to nearest even
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);  // round to nearest even; NaN stays NaN

}  // namespace quire
