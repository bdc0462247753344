#pragma once

#include "device/device.h"
#include "device/model_ops.h"

namespace quire::cpu {

// The operations of ModelOps on a CpuDevice, one file each; see device/model_ops.h. They need
// `reserve` before them and allocate nothing.
Status begin_pass(Device& device, const BeginPassArgs& args);
Status embed(Device& device, const EmbedArgs& args);
Status attention_input(Device& device, const AttentionInputArgs& args);
Status paged_attention(Device& device, const PagedAttentionArgs& args);
Status attention_output(Device& device, const AttentionOutputArgs& args);
Status mlp_input(Device& device, const MlpInputArgs& args);
Status mlp_output(Device& device, const MlpOutputArgs& args);
Status final_norm(Device& device, const FinalNormArgs& args);
Status head(Device& device, const HeadArgs& args);
Status sample(Device& device, const SampleArgs& args);
Status await_draws(Device& device, const AwaitDrawsArgs& args);
Status copy_pages(Device& device, const CopyPagesArgs& args);
Status end_pass(Device& device, const EndPassArgs& args);

}  // namespace quire::cpu
