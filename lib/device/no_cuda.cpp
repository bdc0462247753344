#include "base/error.h"
#include "device/backends.h"
#include "device/device.h"

namespace quire::cuda {

Result<std::unique_ptr<Device>> open_cuda_device(const EngineOptions& options) {
  return error(StatusCode::unsupported, "device \"{}\": this build of quire has no CUDA",
               options.device);
}

}  // namespace quire::cuda
