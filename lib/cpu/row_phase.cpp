#include "cpu/row_phase.h"

#include <cmath>
#include <cstring>

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

std::int64_t panel_piece(const CpuDevice& device, std::int64_t panels) {
  return std::max<std::int64_t>(2, panels / (device.threads() * 8) + 1);
}

void multiply(CpuDevice& device, const Activations& activations,
              std::span<const Product> products) {
  std::int64_t panels = 0;
  for (const Product& product : products) panels += product.panels();
  for_pieces(device.pool(), panels, panel_piece(device, panels),
             [&](std::int64_t first, std::int64_t last, int) {
               std::int64_t start = 0;  // of the product in the row of all panels
               for (const Product& product : products) {
                 const std::int64_t end = start + product.panels();
                 const std::int64_t from = std::max(first, start), to = std::min(last, end);
                 if (from < to) {
                   device.matmul().multiply(matrix_of(*product.linear), activations, from - start,
                                            to - start, product.linear->bias, product.output,
                                            product.stride);
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
  for_pieces(device.pool(), panels, panel_piece(device, panels),
             [&](std::int64_t first, std::int64_t last, int) {
               device.matmul().multiply(matrix_of(*product.linear), activations, first, last,
                                        product.linear->bias, product.output, width);
               const std::int64_t column = first * kPanelRows;
               const auto count = static_cast<int>(std::min(last * kPanelRows, width) - column);
               for (std::int64_t row = 0; row < activations.rows; ++row) {
                 const std::int64_t at = row * width + column;
                 device.row().add_scaled(product.output + at, scale, count, hidden + at);
               }
             });
}

}  // namespace quire::cpu
