#pragma once

#include <cuda_bf16.h>

#include "base/cuda_device.h"
#include "device/model_ops.h"
#include "matmul/product.h"

namespace quire::cuda {

// A call of `product` over `rows` rows with one weight and the device's workspace.
ProductCall product_of(CudaDevice& device, const __nv_bfloat16* input, int rows,
                       const Linear& linear);

// hidden += scale * post_norm(W input + b): the end of a half layer. hidden [rows][out].
Status multiply_and_add(CudaDevice& device, const __nv_bfloat16* input, int rows,
                        const Linear& linear, const RmsNorm& post_norm, float scale, float* hidden);

}  // namespace quire::cuda
