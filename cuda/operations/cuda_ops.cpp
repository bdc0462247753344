#include "base/current_device.h"
#include "base/error.h"
#include "operations/operations.h"

namespace quire::cuda {
namespace {

// Every operation begins by making its device the thread's: an engine may move between threads.
template <class Args, Status (*function)(CudaDevice&, const Args&)>
Status on_device(Device& base, const Args& args) {
  auto& device = static_cast<CudaDevice&>(base);
  const CurrentDevice current(device.ordinal());
  if (!current.status().ok()) return current.status();
  if (device.scratch() == nullptr) {
    return error(StatusCode::internal, "{}: an operation before reserve", device.name());
  }
  return guarded("operation", [&] { return function(device, args); });
}

constexpr ModelOps kOperations{
    .begin_pass = Operation<BeginPassArgs>(on_device<BeginPassArgs, begin_pass>),
    .embed = Operation<EmbedArgs>(on_device<EmbedArgs, embed>),
    .attention_input =
        Operation<AttentionInputArgs>(on_device<AttentionInputArgs, attention_input>),
    .paged_attention = Operation<PagedAttentionArgs>(on_device<PagedAttentionArgs, attend>),
    .attention_output =
        Operation<AttentionOutputArgs>(on_device<AttentionOutputArgs, attention_output>),
    .mlp_input = Operation<MlpInputArgs>(on_device<MlpInputArgs, mlp_input>),
    .mlp_output = Operation<MlpOutputArgs>(on_device<MlpOutputArgs, mlp_output>),
    .final_norm = Operation<FinalNormArgs>(on_device<FinalNormArgs, final_norm>),
    .head = Operation<HeadArgs>(on_device<HeadArgs, head>),
    .sample = Operation<SampleArgs>(on_device<SampleArgs, sample>),
    .copy_pages = Operation<CopyPagesArgs>(on_device<CopyPagesArgs, copy_pages>),
    .end_pass = Operation<EndPassArgs>(on_device<EndPassArgs, end_pass>),
};

}  // namespace

const ModelOps& CudaDevice::ops() const {
  return kOperations;
}

}  // namespace quire::cuda
