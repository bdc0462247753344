#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

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

// Output of the operation before, prepared, by that one if it has kept it.
Result<Activations> given_rows(CpuDevice& device, const char* what, const float* values, int rows,
                               int width);
// The rows as they are, prepared.
Activations prepare_rows(CpuDevice& device, const float* values, int rows, int width);
// The rows normalised (into the scratch's `normed`) and prepared.
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

  std::int64_t token_pieces() const { return ceil_div(tokens, token_piece); }
  std::int64_t panel_pieces() const { return ceil_div(panels, panel_piece); }
  std::int64_t pieces() const { return token_pieces() * panel_pieces(); }
  ProductPart part(std::int64_t index) const;
};
// `unit`: panels that stay together.
ProductGrid product_grid(const CpuDevice& device, int tokens, std::int64_t panels,
                         std::int64_t unit = 2);

// Calls body(part, worker) for all parts of a product.
template <class Body>
void for_parts(CpuDevice& device, const ProductGrid& grid, Body&& body) {
  for_pieces(device.pool(), grid.pieces(), 1,
             [&](std::int64_t first, std::int64_t last, int worker) {
               for (std::int64_t i = first; i < last; ++i) body(grid.part(i), worker);
             });
}

// The parts of each token piece that nobody has reported yet.
class UnfinishedParts {
 public:
  explicit UnfinishedParts(const ProductGrid& grid) {
    for (std::int64_t i = 0; i < grid.token_pieces(); ++i) {
      left_[i].store(static_cast<std::int32_t>(grid.panel_pieces()), std::memory_order_relaxed);
    }
  }
  // True if these were the last: the caller sees what all parts of the token piece have written.
  bool report(std::int64_t token_piece, std::int32_t parts) {
    return left_[token_piece].fetch_sub(parts, std::memory_order_acq_rel) == parts;
  }
  static constexpr int kMost = 256;  // token pieces of a grid

 private:
  std::atomic<std::int32_t> left_[kMost];
};

// The same, and finish(first_token, last_token) once the parts of all panels of these tokens are
// done, while others still are not. `finished` has an element for each thread.
template <class Body, class Finish>
void for_parts(CpuDevice& device, const ProductGrid& grid, std::span<FinishedParts> finished,
               Body&& body, Finish&& finish) {
  UnfinishedParts unfinished(grid);
  const auto report = [&](FinishedParts& own) {
    const std::int32_t count = std::exchange(own.count, 0);
    if (count == 0 || !unfinished.report(own.token_piece, count)) return;
    const ProductPart part = grid.part(own.token_piece * grid.panel_pieces());
    finish(part.first_token, part.last_token);
  };
  for_pieces(
      device.pool(), grid.pieces(), 1,
      [&](std::int64_t first, std::int64_t last, int worker) {
        FinishedParts& own = finished[static_cast<std::size_t>(worker)];
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t token_piece = i / grid.panel_pieces();
          if (token_piece != own.token_piece) report(own);
          body(grid.part(i), worker);
          own.token_piece = token_piece;
          ++own.count;
        }
      },
      [&](int worker) { report(finished[static_cast<std::size_t>(worker)]); });
}

// The rows that a phase normalises.
struct NormedRows {
  const float* hidden = nullptr;  // [rows][width]
  int rows = 0;
  int width = 0;
  RmsNorm norm;
};

// Whether the token pieces of so many rows fit the threads' copies, as they do unless weights are
// multiplied in place.
bool in_blocks(CpuDevice& device, int rows, int width);

// The rows of a token piece, normalised and prepared by the thread that needs them: each thread has
// a copy of its own, so that none waits for another. `phase` tells phases apart.
const RowBlock& normed_block(CpuDevice& device, const NormedRows& rows, std::int64_t phase,
                             const ProductPart& part, int worker);

// Calls run(body(part, worker)), which shares out the parts of a grid, with a body that calls
// body(rows of the part or more, part, worker).
template <class Body, class Run>
void for_normed_parts(CpuDevice& device, const NormedRows& rows, Body&& body, Run&& run) {
  if (!in_blocks(device, rows.rows, rows.width)) {
    const RowBlock all{prepare_normed_rows(device, rows.hidden, rows.rows, rows.width, rows.norm)};
    run([&](const ProductPart& part, int worker) { body(all, part, worker); });
    return;
  }
  const std::int64_t phase = device.scratch()->next_phase();
  run([&, phase](const ProductPart& part, int worker) {
    body(normed_block(device, rows, phase, part, worker), part, worker);
  });
}

// Cuts a part into chunks of panels whose outputs are small; calls body(chunk).
template <class Body>
void for_chunks(const ProductPart& part, Body&& body) {
  constexpr int kPanels = 2;  // a tile has as many
  const std::int64_t panel_bytes = part.tokens() * std::int64_t{kPanelRows} * 4;
  const std::int64_t panels =
      std::max<std::int64_t>(kPanels, kChunkBytes / panel_bytes / kPanels * kPanels);
  ProductPart chunk = part;
  for (; chunk.first_panel < part.last_panel; chunk.first_panel = chunk.last_panel) {
    chunk.last_panel = std::min(part.last_panel, chunk.first_panel + panels);
    body(chunk);
  }
}
// Output rows of a part of a matrix.
inline std::int64_t first_column(const ProductPart& part) {
  return part.first_panel * kPanelRows;
}
inline int columns_of(const ProductPart& part, std::int64_t all) {
  return static_cast<int>(std::min(part.last_panel * kPanelRows, all) - first_column(part));
}

// A part of a product; its tokens are among the rows. The output is the part's.
void multiply_part(const CpuDevice& device, const RowBlock& rows, const Linear& linear,
                   ProductPart part, float* output, std::int64_t stride);
// The same into its place in the whole output.
void multiply_part(const CpuDevice& device, const RowBlock& rows, const Product& product,
                   const ProductPart& part);
// A part of the panels of all products, which follow each other.
void multiply_part(const CpuDevice& device, const RowBlock& rows, std::span<const Product> products,
                   const ProductPart& part);
std::int64_t panels_of(std::span<const Product> products);
// All panels of a product, by all threads.
void multiply(CpuDevice& device, const Activations& activations, const Product& product);

// hidden += scale * norm(x) for rows [first, last).
void add_rows(const RowKernels& kernels, const float* x, std::int64_t first, std::int64_t last,
              int width, const RmsNorm& norm, float scale, float* hidden);

// hidden += scale * norm(W x + b): the end of a half layer.
void multiply_and_add(CpuDevice& device, const Activations& activations, const Linear& linear,
                      int width, const RmsNorm& norm, float scale, float* hidden);

}  // namespace quire::cpu
