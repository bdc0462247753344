#include "cpu/row_phase.h"

#include <cmath>
#include <cstring>
#include <utility>

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

Result<Activations> given_rows(CpuDevice& device, const char* what, const float* values, int rows,
                               int width) {
  const Activations kept = device.scratch()->take_kept(values, rows, width);
  if (kept.rows > 0) return kept;
  if (device.scratch()->lost(values)) {
    return error(StatusCode::internal, "{}: the {} rows of its input are gone", what, rows);
  }
  return prepare_rows(device, values, rows, width);
}

Activations prepare_rows(CpuDevice& device, const float* values, int rows, int width) {
  const Activations activations{rows, width, values, device.scratch()->activations(),
                                device.forms()};
  for_pieces(device.pool(), rows, row_piece(device.pool(), rows, width),
             [&](std::int64_t first, std::int64_t last, int) {
               for (std::int64_t row = first; row < last; ++row) {
                 device.matmul().prepare(activations, static_cast<int>(row), 0, width,
                                         values + row * width);
               }
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
                 float* to = normed + row * width;
                 norm_row(device.row(), norm, hidden + row * width, width, to);
                 device.matmul().prepare(activations, static_cast<int>(row), 0, width, to);
               }
             });
  return activations;
}

bool in_blocks(CpuDevice& device, int rows, int width) {
  const Scratch& scratch = *device.scratch();
  return product_grid(device, rows, 1).token_piece <= scratch.block_rows() &&
         width <= scratch.block_width();
}

const RowBlock& normed_block(CpuDevice& device, const NormedRows& rows, std::int64_t phase,
                             const ProductPart& part, int worker) {
  const Scratch::BlockMemory memory = device.scratch()->block(worker);
  RowBlock& block = memory.state->block;
  const int first_row = part.first_token;
  if (std::exchange(memory.state->phase, phase) == phase && block.first_row == first_row) {
    return block;
  }
  const std::int64_t width = rows.width;
  const float* hidden = rows.hidden + first_row * width;
  const bool floats = device.forms().floats;
  const bool norms = rows.norm.weight != nullptr;
  block.first_row = first_row;
  block.activations = {part.tokens(), rows.width, norms ? memory.normed : hidden, memory.prepared,
                       device.forms()};
  if (!floats) block.activations.values = nullptr;
  for (std::int64_t row = 0; row < block.activations.rows; ++row) {
    const float* x = hidden + row * width;
    if (norms) {
      float* normed = memory.normed + (floats ? row * width : 0);
      norm_row(device.row(), rows.norm, x, rows.width, normed);
      x = normed;
    }
    device.matmul().prepare(block.activations, static_cast<int>(row), 0, rows.width, x);
  }
  return block;
}

ProductPart ProductGrid::part(std::int64_t index) const {
  const std::int64_t panel = index % panel_pieces() * panel_piece;
  const int token = static_cast<int>(index / panel_pieces()) * token_piece;
  return {panel, std::min(panel + panel_piece, panels), token,
          std::min(token + token_piece, tokens)};
}

ProductGrid product_grid(const CpuDevice& device, int tokens, std::int64_t panels,
                         std::int64_t unit) {
  constexpr int kLeastTokens = 64;  // fewer read the weights too often
  constexpr int kPieces = 8;        // for each thread, so that a late one holds up nobody
  // Each thread has one token piece, or more if it were longer than a block. Weights in place are
  // packed again for each piece.
  const int most = std::max(device.threads(), ceil_div(tokens, kBlockRows));
  const int wanted = device.in_place() ? 1
                                       : std::clamp(tokens / kLeastTokens, 1,
                                                    std::min(most, UnfinishedParts::kMost));
  ProductGrid grid{tokens, panels};
  grid.token_piece = std::max(kTokenUnit, round_up(ceil_div(tokens, wanted), kTokenUnit));
  const std::int64_t rest = ceil_div(kPieces * device.threads(), wanted);
  grid.panel_piece = std::max(unit, round_up<std::int64_t>(ceil_div(panels, rest), unit));
  return grid;
}

void multiply_part(const CpuDevice& device, const RowBlock& rows, const Linear& linear,
                   ProductPart part, float* output, std::int64_t stride) {
  part.first_token -= rows.first_row;
  part.last_token -= rows.first_row;
  device.matmul().multiply(matrix_of(linear), rows.activations, part, linear.bias, output, stride);
}

void multiply_part(const CpuDevice& device, const RowBlock& rows, const Product& product,
                   const ProductPart& part) {
  multiply_part(device, rows, *product.linear, part,
                product.output + part.first_token * product.stride + first_column(part),
                product.stride);
}

void multiply_part(const CpuDevice& device, const RowBlock& rows, std::span<const Product> products,
                   const ProductPart& part) {
  std::int64_t start = 0;  // of the product in the row of all panels
  for (const Product& product : products) {
    const std::int64_t end = start + product.panels();
    ProductPart own = part;
    own.first_panel = std::max(part.first_panel, start) - start;
    own.last_panel = std::min(part.last_panel, end) - start;
    if (own.first_panel < own.last_panel) multiply_part(device, rows, product, own);
    start = end;
  }
}

std::int64_t panels_of(std::span<const Product> products) {
  std::int64_t panels = 0;
  for (const Product& product : products) panels += product.panels();
  return panels;
}

void multiply(CpuDevice& device, const Activations& activations, const Product& product) {
  const RowBlock rows{activations};
  for_parts(device, product_grid(device, activations.rows, product.panels()),
            [&](const ProductPart& part, int) { multiply_part(device, rows, product, part); });
}

void add_rows(const RowKernels& kernels, const float* x, std::int64_t first, std::int64_t last,
              int width, const RmsNorm& norm, float scale, float* hidden) {
  for (std::int64_t row = first; row < last; ++row) {
    const float* from = x + row * width;
    float* to = hidden + row * width;
    if (norm.weight == nullptr) {
      kernels.add_scaled(from, scale, width, to);
    } else {
      kernels.add_normed(from, norm_factor(kernels, from, width, norm.epsilon), norm.weight, scale,
                         width, to);
    }
  }
}

void multiply_and_add(CpuDevice& device, const Activations& activations, const Linear& linear,
                      int width, const RmsNorm& norm, float scale, float* hidden) {
  const RowBlock rows{activations};
  const Product product{&linear, device.scratch()->product(), width};
  const ProductGrid grid = product_grid(device, activations.rows, product.panels());
  if (norm.weight != nullptr) {
    for_parts(
        device, grid, device.scratch()->finished(),
        [&](const ProductPart& part, int) { multiply_part(device, rows, product, part); },
        [&](int first, int last) {
          add_rows(device.row(), product.output, first, last, width, norm, scale, hidden);
        });
    return;
  }
  // Without a norm, whoever has computed some columns adds them at once.
  for_parts(device, grid, [&](const ProductPart& part, int worker) {
    float* output = device.scratch()->chunk(worker, 0);
    for_chunks(part, [&](const ProductPart& chunk) {
      const int columns = columns_of(chunk, width);
      multiply_part(device, rows, linear, chunk, output, columns);
      float* to = hidden + std::int64_t{chunk.first_token} * width + first_column(chunk);
      for (std::int64_t row = 0; row < chunk.tokens(); ++row) {
        device.row().add_scaled(output + row * columns, scale, columns, to + row * width);
      }
    });
  });
}

}  // namespace quire::cpu
