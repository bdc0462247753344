#pragma once

#include <memory>

#include <quire/engine_options.h>
#include <quire/status.h>

namespace quire {
class Device;
}

// What each backend offers to open_device; the linker decides which file defines it.
namespace quire::cpu {

// Opens the processor as a device: "cpu" takes the best instruction set there is, "cpu:scalar",
// "cpu:avx2" and "cpu:avx512" that one. Errors: invalid_argument for an unknown name, unsupported
// for a set that this processor or build lacks; both list what there is.
Result<std::unique_ptr<Device>> open_cpu_device(const EngineOptions& options);

}  // namespace quire::cpu

namespace quire::cuda {

// Opens an NVIDIA GPU, "cuda" or "cuda:<number>". Errors: unsupported in a build without CUDA.
Result<std::unique_ptr<Device>> open_cuda_device(const EngineOptions& options);

}  // namespace quire::cuda
