#pragma once

#include "base/cuda_device.h"
#include "device/model_ops.h"

namespace quire::cuda {

// The mixture forms of mlp_input and mlp_output. The host reads which experts were chosen, groups
// rows by expert and queues the products of each; a row's experts are added in ascending order.
Status check_mixture(CudaDevice& device, const char* what, const MlpSpec& mlp, int width);
Status mixture_input(CudaDevice& device, const MlpInputArgs& args);
Status mixture_output(CudaDevice& device, const MlpOutputArgs& args);

}  // namespace quire::cuda
