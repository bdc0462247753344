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

void gate_and_up(CpuDevice& device, const Activations& x, const Linear& gate, const Linear& up,
                 Activation activation, int ff, float* gated, float* scratch) {
  const std::int64_t panels = Product{&gate, gated, ff}.panels();
  for_parts(device, x.rows, panels, [&](const ProductPart& part) {
    const MatmulKernels& matmul = device.matmul();
    matmul.multiply(matrix_of(gate), x, part, gate.bias, gated, ff);
    matmul.multiply(matrix_of(up), x, part, up.bias, scratch, ff);
    const std::int64_t column = part.first_panel * kPanelRows;
    const auto count =
        static_cast<int>(std::min<std::int64_t>(part.last_panel * kPanelRows, ff) - column);
    for (std::int64_t row = part.first_token; row < part.last_token; ++row) {
      const std::int64_t at = row * ff + column;
      activate(device.row(), activation, gated + at, scratch + at, count);
    }
  });
}

Status mlp_input(Device& base, const MlpInputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status s = check(device, "mlp_input", args.mlp, args.rows, args.width); !s) return s;
  if (args.rows == 0) return {};
  const MlpSpec& mlp = *args.mlp;
  const Activations x = prepare_normed_rows(device, args.hidden, args.rows, args.width, args.norm);
  if (mlp.mixture.experts > 0) {
    route(device, args, x);
    mixture_input(device, args, x.values);
  } else {
    gate_and_up(device, x, *mlp.gate, *mlp.up, mlp.activation, mlp.ff,
                static_cast<float*>(args.inner), device.scratch()->product());
  }
  return {};
}

Status mlp_output(Device& base, const MlpOutputArgs& args) {
  auto& device = static_cast<CpuDevice&>(base);
  if (Status s = check(device, "mlp_output", args.mlp, args.rows, args.width); !s) return s;
  if (args.rows == 0) return {};
  const MlpSpec& mlp = *args.mlp;
  float* product = device.scratch()->product();
  if (mlp.mixture.experts == 0) {
    const Activations x =
        prepare_rows(device, static_cast<const float*>(args.inner), args.rows, mlp.ff);
    multiply_and_add(device, x, {mlp.down, product, args.width}, args.post_norm,
                     args.residual_scale, args.hidden);
    return {};
  }
  for (std::int64_t i = 0; i < std::int64_t{args.rows} * mlp.mixture.top_k; ++i) {
    if (args.chosen[i] < 0 || args.chosen[i] >= mlp.mixture.experts) {
      return error(StatusCode::internal, "mlp_output: expert {} of {}", args.chosen[i],
                   mlp.mixture.experts);
    }
  }
  mixture_output(device, args, product);
  add_rows(device, product, args.rows, args.width, args.post_norm, args.residual_scale,
           args.hidden);
  return {};
}

}  // namespace quire::cpu
