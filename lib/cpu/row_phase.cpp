#include "cpu/row_phase.h"

#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "cpu/phase.h"

namespace quire::cpu {
namespace {

// Floats of cheap row work below which waking other threads does not pay.
constexpr std::int64_t kLeastFloats = 8192;

std::int64_t row_piece(const ThreadPool& pool, int rows, int width) {
  return piece_size(pool, rows, 4, kLeastFloats / std::max(width, 1) + 1);
}

}  // namespace

Status check_rows(CpuDevice& device, const char* what, int rows, int width) {
  if (device.scratch() == nullptr) {
    return error(StatusCode::internal, "{}: nothing was reserved", what);
  }
  const WorkLimits& limits = device.scratch()->limits();
  const int most = std::max(limits.rows, limits.logit_rows);
  if (rows < 0 || rows > most || width < 1 || width > limits.width) {
    return error(StatusCode::internal, "{}: {} rows of {} floats, but {} of {} were reserved", what,
                 rows, width, most, limits.width);
  }
  return {};
}

Status check_linear(const char* what, const Linear* linear, std::int64_t columns) {
  if (linear == nullptr || linear->weight == nullptr) {
    return error(StatusCode::internal, "{}: a weight is missing", what);
  }
  if (linear->weight->columns() != columns) {
    return error(StatusCode::internal, "{}: a weight has {} columns, its input {}", what,
                 linear->weight->columns(), columns);
  }
  return {};
}

const Matrix& matrix_of(const Linear& linear) {
  return static_cast<const Matrix&>(*linear.weight);
}

float norm_factor(const RowKernels& kernels, const float* x, int width, float epsilon) {
  const float mean = kernels.sum_of_squares(x, width) / static_cast<float>(width);
  return 1 / std::sqrt(mean + epsilon);
}

void norm_row(const RowKernels& kernels, const RmsNorm& norm, const float* x, int width,
              float* to) {
  if (norm.weight == nullptr) {
    if (to != x) std::memcpy(to, x, sizeof(float) * static_cast<std::size_t>(width));
    return;
  }
  kernels.normalise(x, norm_factor(kernels, x, width, norm.epsilon), norm.weight, width, to);
}

Activations prepare_rows(CpuDevice& device, const float* values, int rows, int width) {
  const Activations activations{rows, width, values, device.scratch()->activations(),
                                device.forms()};
  for_pieces(device.pool(), rows, row_piece(device.pool(), rows, width),
             [&](std::int64_t first, std::int64_t last, int) {
               device.matmul().prepare(activations, static_cast<int>(first),
                                       static_cast<int>(last));
             });
  return activations;
}

Activations prepare_normed_rows(CpuDevice& device, const float* hidden, int rows, int width,
                                const RmsNorm& norm) {
  if (norm.weight == nullptr) return prepare_rows(device, hidden, rows, width);
  float* normed = device.scratch()->normed();
  const Activations activations{rows, width, normed, device.scratch()->activations(),
                                device.forms()};
  for_pieces(device.pool(), rows, row_piece(device.pool(), rows, width),
             [&](std::int64_t first, std::int64_t last, int) {
               for (std::int64_t row = first; row < last; ++row) {
                 norm_row(device.row(), norm, hidden + row * width, width, normed + row * width);
               }
               device.matmul().prepare(activations, static_cast<int>(first),
                                       static_cast<int>(last));
             });
  return activations;
}

ProductPart ProductGrid::part(std::int64_t index) const {
  const std::int64_t panel = index % panel_pieces() * panel_piece;
  const int token = static_cast<int>(index / panel_pieces()) * token_piece;
  return {panel, std::min(panel + panel_piece, panels), token,
          std::min(token + token_piece, tokens)};
}

ProductGrid product_grid(const CpuDevice& device, int tokens, std::int64_t panels) {
  constexpr int kLeastTokens = 64;  // fewer read the weights too often
  constexpr int kPieces = 8;        // for each thread, so that a late one holds up nobody
  constexpr int kPanels = 2;        // a tile has as many
  // Weights in place are packed again for each piece.
  const int wanted =
      device.in_place() ? 1 : std::clamp(tokens / kLeastTokens, 1, 2 * device.threads());
  ProductGrid grid{tokens, panels};
  grid.token_piece = std::max(kTokenUnit, round_up(ceil_div(tokens, wanted), kTokenUnit));
  const std::int64_t rest = ceil_div(kPieces * device.threads(), wanted);
  grid.panel_piece =
      std::max<std::int64_t>(kPanels, round_up<std::int64_t>(ceil_div(panels, rest), kPanels));
  return grid;
}

void multiply(CpuDevice& device, const Activations& activations,
              std::span<const Product> products) {
  std::int64_t panels = 0;
  for (const Product& product : products) panels += product.panels();
  for_parts(device, activations.rows, panels, [&](const ProductPart& part) {
    std::int64_t start = 0;  // of the product in the row of all panels
    for (const Product& product : products) {
      const std::int64_t end = start + product.panels();
      ProductPart own = part;
      own.first_panel = std::max(part.first_panel, start) - start;
      own.last_panel = std::min(part.last_panel, end) - start;
      if (own.first_panel < own.last_panel) {
        device.matmul().multiply(matrix_of(*product.linear), activations, own, product.linear->bias,
                                 product.output, product.stride);
      }
      start = end;
    }
  });
}

void add_rows(CpuDevice& device, const float* x, int rows, int width, const RmsNorm& norm,
              float scale, float* hidden) {
  const RowKernels& kernels = device.row();
  for_pieces(device.pool(), rows, row_piece(device.pool(), rows, width),
             [&](std::int64_t first, std::int64_t last, int) {
               for (std::int64_t row = first; row < last; ++row) {
                 const float* from = x + row * width;
                 float* to = hidden + row * width;
                 if (norm.weight == nullptr) {
                   kernels.add_scaled(from, scale, width, to);
                   continue;
                 }
                 kernels.add_normed(from, norm_factor(kernels, from, width, norm.epsilon),
                                    norm.weight, scale, width, to);
               }
             });
}

void multiply_and_add(CpuDevice& device, const Activations& activations, const Product& product,
                      const RmsNorm& norm, float scale, float* hidden) {
  if (norm.weight != nullptr) {
    multiply(device, activations, std::span(&product, 1));
    add_rows(device, product.output, activations.rows, static_cast<int>(product.stride), norm,
             scale, hidden);
    return;
  }
  // Without a norm, whoever has computed some columns adds them at once.
  const std::int64_t panels = product.panels(), width = product.stride;
  for_parts(device, activations.rows, panels, [&](const ProductPart& part) {
    device.matmul().multiply(matrix_of(*product.linear), activations, part, product.linear->bias,
                             product.output, width);
    const std::int64_t column = part.first_panel * kPanelRows;
    const auto count = static_cast<int>(std::min(part.last_panel * kPanelRows, width) - column);
    for (std::int64_t row = part.first_token; row < part.last_token; ++row) {
      const std::int64_t at = row * width + column;
      device.row().add_scaled(product.output + at, scale, count, hidden + at);
    }
  });
}

}  // namespace quire::cpu
