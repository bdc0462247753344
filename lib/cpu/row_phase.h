#pragma once

#include <cstdint>
#include <span>

#include "base/checked.h"
#include "cpu/cpu_device.h"
#include "cpu/pack.h"
#include "cpu/phase.h"

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

// How the threads share a product: pieces of so many tokens by so many panels. With many tokens
// each thread has tokens of its own, whose activations it has prepared and whose outputs it goes on
// with.
struct ProductGrid {
  int tokens = 0;
  std::int64_t panels = 0;
  int token_piece = 0;
  std::int64_t panel_piece = 0;

  std::int64_t panel_pieces() const { return ceil_div(panels, panel_piece); }
  std::int64_t pieces() const { return ceil_div(tokens, token_piece) * panel_pieces(); }
  ProductPart part(std::int64_t index) const;
};
ProductGrid product_grid(const CpuDevice& device, int tokens, std::int64_t panels);

// Calls body(part) for all parts of a product.
template <class Body>
void for_parts(CpuDevice& device, int tokens, std::int64_t panels, Body&& body) {
  const ProductGrid grid = product_grid(device, tokens, panels);
  for_pieces(device.pool(), grid.pieces(), 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) body(grid.part(i));
  });
}

// All panels of all products, by all threads.
void multiply(CpuDevice& device, const Activations& activations, std::span<const Product> products);

// hidden += scale * norm(x) for every row.
void add_rows(CpuDevice& device, const float* x, int rows, int width, const RmsNorm& norm,
              float scale, float* hidden);

// hidden += scale * norm(W x + b): the end of a half layer. The product's output is scratch memory.
void multiply_and_add(CpuDevice& device, const Activations& activations, const Product& product,
                      const RmsNorm& norm, float scale, float* hidden);

}  // namespace quire::cpu
