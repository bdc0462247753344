#include "base/error.h"
#include "operations/operations.h"

namespace quire::cuda {

Status sample(CudaDevice& device, const SampleArgs& args) {
  if (args.results.size() != args.draws.size()) {
    return error(StatusCode::internal, "sample: {} draws, {} results", args.draws.size(),
                 args.results.size());
  }
  return device.scratch()->sampler().run(device.launch(), args.draws, args.results);
}

}  // namespace quire::cuda
