#include "device/backends.h"
#include "device/device.h"

namespace quire {

Result<std::unique_ptr<Device>> open_device(const EngineOptions& options) {
  if (options.device == "cuda" || options.device.starts_with("cuda:")) {
    return cuda::open_cuda_device(options);
  }
  return cpu::open_cpu_device(options);
}

}  // namespace quire
