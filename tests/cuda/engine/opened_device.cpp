#include "opened_device.h"

#include "device/backends.h"

namespace quire {
namespace {

Device*& last_device() {
  static Device* device = nullptr;
  return device;
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const EngineOptions& options) {
  if (!options.device.starts_with("cuda")) return cpu::open_cpu_device(options);
  auto device = cuda::open_cuda_device(options);
  if (device) last_device() = device->get();
  return device;
}

cuda::CudaDevice& testing::opened_device() {
  return static_cast<cuda::CudaDevice&>(*last_device());
}

}  // namespace quire
