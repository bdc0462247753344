#include "base/error.h"
#include "operations/operations.h"

namespace quire::cuda {

Status sample(CudaDevice& device, const SampleArgs& args) {
  if (args.results.size() != args.draws.size()) {
    return error(StatusCode::internal, "sample: {} draws, {} results", args.draws.size(),
                 args.results.size());
  }
  if (Status s = device.graphs().leave(device.launch().stream); !s.ok()) return s;
  TokenSampler& sampler = device.scratch()->sampler();
  // Mixtures wait for the device in the middle of a pass: nothing is gained by beginning it early.
  if (args.awaited != nullptr && device.scratch()->limits().experts == 0) {
    const Result<std::uint64_t> number = sampler.queue(device.launch(), args.draws);
    if (!number) return number.status();
    *args.awaited = *number;
    if (*number != 0) return {};
  }
  return sampler.run(device.launch(), args.draws, args.results);
}

Status await_draws(CudaDevice& device, const AwaitDrawsArgs& args) {
  // A pass on top of it may have failed while it was recorded, and then nothing may be waited for.
  device.graphs().begin(device.launch().stream, {});
  const Result<DrawsState> state =
      device.scratch()->sampler().collect(args.awaited, args.results, args.wait);
  if (!state) return state.status();
  *args.state = *state;
  return {};
}

}  // namespace quire::cuda
