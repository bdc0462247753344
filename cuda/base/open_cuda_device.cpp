#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/cuda_device.h"
#include "base/error.h"
#include "device/backends.h"

namespace quire::cuda {
namespace {

// "cuda" or "cuda:<number>"
Result<int> ordinal_of(const std::string& name) {
  if (name == "cuda") return 0;
  const std::string_view digits = std::string_view(name).substr(std::string_view("cuda:").size());
  int ordinal = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (code != std::errc() || end != digits.data() + digits.size() || ordinal < 0) {
    return error(StatusCode::invalid_argument,
                 "unknown device \"{}\"; wanted \"cuda\" or \"cuda:\" and a number", name);
  }
  return ordinal;
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(const EngineOptions& options) {
  return guarded("open_cuda_device", [&]() -> Result<std::unique_ptr<Device>> {
    const Result<int> ordinal = ordinal_of(options.device);
    if (!ordinal) return ordinal.status();
    if (options.cpu.compute == Compute::f32) {
      return error(StatusCode::unsupported, "device \"{}\" does not compute in float32",
                   options.device);
    }
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) {
      cudaGetLastError();
      return error(StatusCode::device_error, "device \"{}\": {} ({})", options.device,
                   cudaGetErrorString(code), cudaGetErrorName(code));
    }
    if (*ordinal >= count) {
      return error(StatusCode::device_error, "device \"{}\": {} NVIDIA GPUs are there",
                   options.device, count);
    }
    auto device = CudaDevice::open(*ordinal, options);
    if (!device) return device.status();
    return std::unique_ptr<Device>(std::move(*device));
  });
}

}  // namespace quire::cuda
