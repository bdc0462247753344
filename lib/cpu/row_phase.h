#pragma once

#include <cstdint>
#include <span>

#include "cpu/cpu_device.h"
#include "cpu/pack.h"

namespace quire::cpu {

// Checks of what every operation needs; `what` names it in the message.
Status check_rows(CpuDevice& device, const char* what, int rows, int width);
Status check_linear(const char* what, const Linear* linear, std::int64_t columns);

const Matrix& matrix_of(const Linear& linear);

// Factor of an RMS norm for one row: 1 / sqrt(mean of squares + epsilon).
float norm_factor(const RowKernels& kernels, const float* x, int width, float epsilon);
// to = norm(x); may alias. A null weight copies.
void norm_row(const RowKernels& kernels, const RmsNorm& norm, const float* x, int width, float* to);

// The rows as they are, quantised.
Activations prepare_rows(CpuDevice& device, const float* values, int rows, int width);
// The rows normalised (into the scratch's `normed`) and quantised.
Activations prepare_normed_rows(CpuDevice& device, const float* hidden, int rows, int width,
                                const RmsNorm& norm);

// One of the products of a phase: output[row * stride + out] = W x + b.
struct Product {
  const Linear* linear = nullptr;
  float* output = nullptr;
  std::int64_t stride = 0;

  std::int64_t panels() const { return (linear->weight->rows() + kPanelRows - 1) / kPanelRows; }
};

// Panels in a piece of a phase with that many panels in all.
std::int64_t panel_piece(const CpuDevice& device, std::int64_t panels);
// All panels of all products, by all threads.
void multiply(CpuDevice& device, const Activations& activations, std::span<const Product> products);

// hidden += scale * norm(x) for every row.
void add_rows(CpuDevice& device, const float* x, int rows, int width, const RmsNorm& norm,
              float scale, float* hidden);

// hidden += scale * norm(W x + b): the end of a half layer. The product's output is scratch memory.
void multiply_and_add(CpuDevice& device, const Activations& activations, const Product& product,
                      const RmsNorm& norm, float scale, float* hidden);

}  // namespace quire::cpu
