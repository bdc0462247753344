#include "base/error.h"
#include "operations/check.h"
#include "operations/mixture.h"
#include "operations/multiply.h"
#include "operations/operations.h"
#include "operations/row_kernels.h"

namespace quire::cuda {
namespace {

Status check(CudaDevice& device, const char* what, const MlpSpec* mlp, int rows, int width) {
  if (mlp == nullptr) return error(StatusCode::internal, "{}: no layer", what);
  if (Status s = check_rows(device, what, rows, width); !s.ok()) return s;
  if (Status s = check_rows(device, what, rows, mlp->ff); !s.ok()) return s;
  if (mlp->mixture.experts > 0) return check_mixture(device, what, *mlp, width);
  if (Status s = check_linear(what, mlp->gate, mlp->ff, width); !s.ok()) return s;
  if (Status s = check_linear(what, mlp->up, mlp->ff, width); !s.ok()) return s;
  return check_linear(what, mlp->down, width, mlp->ff);
}

Status gate_and_up(CudaDevice& device, const MlpInputArgs& args) {
  const MlpSpec& mlp = *args.mlp;
  ProductCall call = product_of(device, device.scratch()->normed(), args.rows, *mlp.gate);
  call.matrices = 2;
  call.weights[1] = mlp.up->weight.get();
  call.bias[1] = mlp.up->bias;
  call.out_bfloat16 = static_cast<__nv_bfloat16*>(args.inner);
  switch (mlp.activation) {
    case Activation::silu:
      call.epilogue = Epilogue::gated_silu;
      return product(device.launch(), call);
    case Activation::gelu_tanh:
      call.epilogue = Epilogue::gated_gelu_tanh;
      return product(device.launch(), call);
    case Activation::swiglu_clamped:
      break;
  }
  return error(StatusCode::unsupported,
               "{}: the clamped SwiGLU is there only for mixtures of experts", device.name());
}

}  // namespace

Status mlp_input(CudaDevice& device, const MlpInputArgs& args) {
  Status status = check(device, "mlp_input", args.mlp, args.rows, args.width);
  if (!status.ok() || args.rows == 0) return status;
  status = norm_rows(device.launch(), args.hidden, nullptr, args.rows, args.width, args.norm,
                     device.scratch()->normed());
  if (!status.ok()) return status;
  return args.mlp->mixture.experts > 0 ? mixture_input(device, args) : gate_and_up(device, args);
}

Status mlp_output(CudaDevice& device, const MlpOutputArgs& args) {
  Status status = check(device, "mlp_output", args.mlp, args.rows, args.width);
  if (!status.ok() || args.rows == 0) return status;
  if (args.mlp->mixture.experts > 0) return mixture_output(device, args);
  return multiply_and_add(device, static_cast<const __nv_bfloat16*>(args.inner), args.rows,
                          *args.mlp->down, args.post_norm, args.residual_scale, args.hidden);
}

}  // namespace quire::cuda
