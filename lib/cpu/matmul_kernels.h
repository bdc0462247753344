#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

// What the kernels of each instruction set implement, in plain types only: files compiled for an
// instruction set must not emit shared inline functions.

namespace quire::cpu {

// The 8-bit form of 32 activations: value = scale * code. If one of them is infinite or not a
// number, all codes are 0 and the scale is not a number.
struct alignas(64) ActivationGroup {
  std::int8_t codes[32];       // -127 ... 127
  float scale;                 // largest magnitude / 127; 0 if that is below kSmallestActivation
  float sum;                   // scale * sum of the codes
  float part_sum[2];           // the same of each 16 columns
  std::int32_t minus_total;    // -(sum of the codes)
  std::int32_t minus_part[2];  // the same of each 16 columns
  std::int32_t unused;
};

constexpr float kSmallestActivation = 1e-30f;  // 127 over anything smaller might overflow

enum class MatmulForm {
  integer,   // quantised weights, 8-bit activations
  expanded,  // quantised weights, float32 activations
  plain,     // F32, F16 and BF16 weights, float32 activations
  // BF16 weights and activations; numbers below the normal ones count as 0. Pairs: for each pair of
  // columns sum = fma(w[1], x[1], sum), then sum = fma(w[0], x[0], sum), as vdpbf16ps does. Tiles:
  // for 32 columns the fma chains of the even and of the odd ones, and sum += even + odd, as
  // tdpbf16ps does.
  bfloat_pairs,
  bfloat_tiles,
};

// output[t * output_stride + r] = sum over the columns for rows of panels [first_panel, last_panel)
// and tokens [0, tokens).
struct MatmulArgs {
  DType type = DType::f32;
  MatmulForm form = MatmulForm::plain;
  const std::byte* panels = nullptr;  // panel 0
  std::size_t panel_bytes = 0;
  std::int64_t rows = 0;  // of the matrix
  std::int64_t first_panel = 0;
  std::int64_t last_panel = 0;
  int columns = 0;  // of this call
  int tokens = 0;
  const ActivationGroup* groups =
      nullptr;  // [tokens][group_stride], the first of this call's columns
  std::int64_t group_stride = 0;
  const float* values = nullptr;  // [tokens][value_stride], the same
  std::int64_t value_stride = 0;
  // For bfloat_pairs [tokens][columns / 32][32]; for bfloat_tiles the same for each 16 tokens, or
  // what is left of them, in the order [columns / 32][tokens][32].
  const std::uint16_t* bfloats = nullptr;
  std::int64_t bfloat_stride = 0;  // elements of a token
  int first_bfloat_block = 0;      // of 32 columns, of this call's columns
  const float* bias = nullptr;     // [rows], or null
  bool resume = false;             // sums go on from what `output` holds
  float* output = nullptr;
  std::int64_t output_stride = 0;
};

// Quantises `columns` activations into ceil(columns / 32) groups and zeroes the groups up to
// `groups`.
using QuantiseRow = void (*)(const float* values, int columns, ActivationGroup* to, int groups);
// Rounds `columns` activations to bfloat16 and zeroes those behind, up to `blocks` blocks of 32;
// `stride` elements from block to block.
using RoundRow = void (*)(const float* values, int columns, std::uint16_t* to, int blocks,
                          std::int64_t stride);
using Multiply = void (*)(const MatmulArgs& args);

void quantise_row_scalar(const float* values, int columns, ActivationGroup* to, int groups);
void quantise_row_avx2(const float* values, int columns, ActivationGroup* to, int groups);
void quantise_row_avx512(const float* values, int columns, ActivationGroup* to, int groups);
void quantise_row_neon(const float* values, int columns, ActivationGroup* to, int groups);
void round_row_avx512_bf16(const float* values, int columns, std::uint16_t* to, int blocks,
                           std::int64_t stride);
void multiply_scalar(const MatmulArgs& args);
void multiply_avx2(const MatmulArgs& args);
void multiply_avx_vnni(const MatmulArgs& args);
void multiply_avx512(const MatmulArgs& args);
void multiply_avx512_bf16(const MatmulArgs& args);
void multiply_amx(const MatmulArgs& args);
void multiply_amx_int8(const MatmulArgs& args);
void multiply_neon(const MatmulArgs& args);
void multiply_dotprod(const MatmulArgs& args);
void multiply_i8mm(const MatmulArgs& args);

}  // namespace quire::cpu
