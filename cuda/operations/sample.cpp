#include "base/error.h"
#include "operations/operations.h"

namespace quire::cuda {

Status sample(CudaDevice& device, const SampleArgs& args) {
  if (args.results.size() != args.draws.size()) {
    return error(StatusCode::internal, "sample: {} draws, {} results", args.draws.size(),
                 args.results.size());
  }
  if (Status s = device.graphs().leave(device.launch().stream); !s.ok()) return s;
  return device.scratch()->sampler().run(device.launch(), args.draws, args.results);
}

}  // namespace quire::cuda
