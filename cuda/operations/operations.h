#pragma once

#include "base/cuda_device.h"
#include "device/model_ops.h"

namespace quire::cuda {

// The operations of ModelOps on a CudaDevice, one file each; see device/model_ops.h. All but
// `sample`, `end_pass` and mixtures only queue work on the device's stream. They need `reserve`
// before them, and `begin_pass` for what it brings to the device.
Status begin_pass(CudaDevice& device, const BeginPassArgs& args);
Status embed(CudaDevice& device, const EmbedArgs& args);
Status attention_input(CudaDevice& device, const AttentionInputArgs& args);
Status attend(CudaDevice& device, const PagedAttentionArgs& args);
Status attention_output(CudaDevice& device, const AttentionOutputArgs& args);
Status mlp_input(CudaDevice& device, const MlpInputArgs& args);
Status mlp_output(CudaDevice& device, const MlpOutputArgs& args);
Status final_norm(CudaDevice& device, const FinalNormArgs& args);
Status head(CudaDevice& device, const HeadArgs& args);
Status sample(CudaDevice& device, const SampleArgs& args);
Status await_draws(CudaDevice& device, const AwaitDrawsArgs& args);
Status copy_pages(CudaDevice& device, const CopyPagesArgs& args);
Status end_pass(CudaDevice& device, const EndPassArgs& args);

}  // namespace quire::cuda
