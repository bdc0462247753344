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

// Those that a graph of the pass may stand for.
template <class Args, Status (*function)(CudaDevice&, const Args&)>
Status in_graph(CudaDevice& device, const Args& args) {
  const Result<bool> queued = device.graphs().enter(device.launch().stream);
  if (!queued) return queued.status();
  return *queued ? Status() : function(device, args);
}

template <class Args, Status (*function)(CudaDevice&, const Args&)>
constexpr Operation<Args> recorded() {
  return Operation<Args>(on_device<Args, in_graph<Args, function>>);
}

constexpr ModelOps kOperations{
    .begin_pass = Operation<BeginPassArgs>(on_device<BeginPassArgs, begin_pass>),
    .embed = recorded<EmbedArgs, embed>(),
    .attention_input = recorded<AttentionInputArgs, attention_input>(),
    .paged_attention = recorded<PagedAttentionArgs, attend>(),
    .attention_output = recorded<AttentionOutputArgs, attention_output>(),
    .mlp_input = recorded<MlpInputArgs, mlp_input>(),
    .mlp_output = recorded<MlpOutputArgs, mlp_output>(),
    .final_norm = recorded<FinalNormArgs, final_norm>(),
    .head = recorded<HeadArgs, head>(),
    .sample = Operation<SampleArgs>(on_device<SampleArgs, sample>),
    .await_draws = Operation<AwaitDrawsArgs>(on_device<AwaitDrawsArgs, await_draws>),
    .copy_pages = Operation<CopyPagesArgs>(on_device<CopyPagesArgs, copy_pages>),
    .end_pass = Operation<EndPassArgs>(on_device<EndPassArgs, end_pass>),
};

}  // namespace

const ModelOps& CudaDevice::ops() const {
  return kOperations;
}

}  // namespace quire::cuda
