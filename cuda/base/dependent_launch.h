#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "base/launch.h"

namespace quire::cuda {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// Launches a kernel that waits for the one before it by itself (wait_for_previous_kernel), so that
// it may be brought to the multiprocessors while that one ends.
template <class... Args>
Status launch_dependent(const Launch& launch, const void* kernel, const char* what,
                        const LaunchShape& shape, const Args&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = launch.compute_capability >= 90 ? 1 : 0;
  const void* parameters[] = {&args...};
  return status_of(cudaLaunchKernelExC(&config, kernel, const_cast<void**>(parameters)), what);
}

}  // namespace quire::cuda
