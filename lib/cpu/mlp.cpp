#include <algorithm>

#include "base/error.h"
#include "cpu/mixture.h"
#include "cpu/operations.h"
#include "cpu/phase.h"
#include "cpu/row_phase.h"

namespace quire::cpu {
namespace {

Status check_shape(const char* what, const Linear& linear, std::int64_t out, std::int64_t in) {
  if (Status s = check_linear(what, &linear, in); !s) return s;
  if (linear.weight->rows() == out) return {};
  return error(StatusCode::internal, "{}: a weight gives {} elements instead of {}", what,
               linear.weight->rows(), out);
}

Status check_mixture(const char* what, const MixtureSpec& m, int width, int ff) {
  if (m.top_k < 1 || m.top_k > m.experts || m.router == nullptr || m.gate == nullptr ||
      m.up == nullptr || m.down == nullptr) {
    return error(StatusCode::internal, "{}: {} of {} experts", what, m.top_k, m.experts);
  }
  if (Status s = check_shape(what, *m.router, m.experts, width); !s) return s;
  for (int e = 0; e < m.experts; ++e) {
    if (Status s = check_shape(what, m.gate[e], ff, width); !s) return s;
    if (Status s = check_shape(what, m.up[e], ff, width); !s) return s;
    if (Status s = check_shape(what, m.down[e], width, ff); !s) return s;
  }
  return {};
}

Status check(CpuDevice& device, const char* what, const MlpSpec* mlp, int rows, int width) {
  if (mlp == nullptr) return error(StatusCode::internal, "{}: no layer", what);
  if (Status s = check_rows(device, what, rows, width); !s) return s;
  if (Status s = check_rows(device, what, rows, mlp->ff); !s) return s;
  if (mlp->mixture.experts > 0) {
    if (Status s = check_rows(device, what, rows, mlp->mixture.experts); !s) return s;
    return check_mixture(what, mlp->mixture, width, mlp->ff);
  }
  if (mlp->gate == nullptr || mlp->up == nullptr || mlp->down == nullptr) {
    return error(StatusCode::internal, "{}: a weight is missing", what);
  }
  if (Status s = check_shape(what, *mlp->gate, mlp->ff, width); !s) return s;
  if (Status s = check_shape(what, *mlp->up, mlp->ff, width); !s) return s;
  return check_shape(what, *mlp->down, width, mlp->ff);
}

}  // namespace

void activate(const RowKernels& kernels, Activation activation, float* gate, const float* up,
              int n) {
  switch (activation) {
    case Activation::silu:
      return kernels.silu(gate, up, n);
    case Activation::gelu_tanh:
      return kernels.gelu_tanh(gate, up, n);
    case Activation::swiglu_clamped:
      return kernels.swiglu_clamped(gate, up, n);
  }
}

void gate_and_up(CpuDevice& device, const RowBlock& rows, const GatedProduct& product,
                 const ProductPart& part, int worker) {
  for_chunks(part, [&](const ProductPart& chunk) {
    const std::int64_t column = first_column(chunk);
    const int columns = columns_of(chunk, product.ff);
    float* up = device.scratch()->chunk(worker, 1);
    float* gated = device.scratch()->chunk(worker, 0);
    std::int64_t stride = columns;
    if (product.gated != nullptr) {
      stride = product.ff;
      gated = product.gated + chunk.first_token * stride + column;
    }
    multiply_part(device, rows, product.gate, chunk, gated, stride);
    multiply_part(device, rows, product.up, chunk, up, columns);
    for (int row = chunk.first_token; row < chunk.last_token; ++row) {
      activate(device.row(), product.activation, gated, up, columns);
      if (product.prepared != nullptr) {
        device.matmul().prepare(*product.prepared, row, static_cast<int>(column),
                                static_cast<int>(column) + columns, gated);
      }
      gated += stride;
      up += columns;
    }
  });
}

Status mlp_input(Device& base, const MlpInputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status s = check(device, "mlp_input", args.mlp, args.rows, args.width); !s) return s;
  if (args.rows == 0) return {};
  const MlpSpec& mlp = *args.mlp;
  if (mlp.mixture.experts > 0) {
    const Activations x =
        prepare_normed_rows(device, args.hidden, args.rows, args.width, args.norm);
    route(device, args, x);
    mixture_input(device, args, x.values);
    return {};
  }
  // Prepared for the product by `down` where it is computed, unless the input lies there.
  auto* inner = static_cast<float*>(args.inner);
  const Activations prepared{args.rows, mlp.ff, inner, device.scratch()->activations(),
                             device.forms()};
  const bool prepares = in_blocks(device, args.rows, args.width);
  const GatedProduct product{*mlp.gate,
                             *mlp.up,
                             mlp.activation,
                             mlp.ff,
                             prepares && !prepared.forms.floats ? nullptr : inner,
                             prepares ? &prepared : nullptr};
  const ProductGrid grid = product_grid(device, args.rows, ceil_div(mlp.ff, kPanelRows));
  for_normed_parts(
      device, {args.hidden, args.rows, args.width, args.norm},
      [&](const RowBlock& rows, const ProductPart& part, int worker) {
        gate_and_up(device, rows, product, part, worker);
      },
      [&](auto&& body) { for_parts(device, grid, body); });
  device.scratch()->keep(prepares ? prepared : Activations{}, inner);
  return {};
}

Status mlp_output(Device& base, const MlpOutputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status s = check(device, "mlp_output", args.mlp, args.rows, args.width); !s) return s;
  if (args.rows == 0) return {};
  const MlpSpec& mlp = *args.mlp;
  if (mlp.mixture.experts == 0) {
    const Result<Activations> x =
        given_rows(device, "mlp_output", static_cast<const float*>(args.inner), args.rows, mlp.ff);
    if (!x) return x.status();
    multiply_and_add(device, *x, *mlp.down, args.width, args.post_norm, args.residual_scale,
                     args.hidden);
    return {};
  }
  for (std::int64_t i = 0; i < std::int64_t{args.rows} * mlp.mixture.top_k; ++i) {
    if (args.chosen[i] < 0 || args.chosen[i] >= mlp.mixture.experts) {
      return error(StatusCode::internal, "mlp_output: expert {} of {}", args.chosen[i],
                   mlp.mixture.experts);
    }
  }
  float* product = device.scratch()->product();
  mixture_output(device, args, product);
  for_pieces(device.pool(), args.rows, piece_size(device.pool(), args.rows, 4, 16),
             [&](std::int64_t first, std::int64_t last, int) {
               add_rows(device.row(), product, first, last, args.width, args.post_norm,
                        args.residual_scale, args.hidden);
             });
  return {};
}

}  // namespace quire::cpu
