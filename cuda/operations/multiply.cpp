#include "operations/multiply.h"

#include "operations/row_kernels.h"

namespace quire::cuda {

ProductCall product_of(CudaDevice& device, const __nv_bfloat16* input, int rows,
                       const Linear& linear) {
  CudaScratch& scratch = *device.scratch();
  ProductCall call;
  call.rows = rows;
  call.input = input;
  call.weights[0] = linear.weight.get();
  call.bias[0] = linear.bias;
  call.out_stride = linear.weight->rows();
  call.library = device.library();
  call.workspace = scratch.multiply();
  call.workspace_bytes = scratch.multiply_bytes();
  return call;
}

Status multiply_and_add(CudaDevice& device, const __nv_bfloat16* input, int rows,
                        const Linear& linear, const RmsNorm& post_norm, float scale,
                        float* hidden) {
  ProductCall call = product_of(device, input, rows, linear);
  if (post_norm.weight == nullptr) {
    call.epilogue = Epilogue::add_residual;
    call.residual_scale = scale;
    call.out_float = hidden;
    return product(device.launch(), call);
  }
  float* output = device.scratch()->product();
  call.epilogue = Epilogue::store_float;
  call.out_float = output;
  if (Status s = product(device.launch(), call); !s.ok()) return s;
  return add_rows(device.launch(), output, rows, static_cast<int>(linear.weight->rows()), post_norm,
                  scale, hidden);
}

}  // namespace quire::cuda
