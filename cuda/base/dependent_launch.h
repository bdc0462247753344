#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "base/launch.h"

namespace quire::cuda {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // thread blocks of a cluster, along x
};

// Launches a kernel that waits for the one before it by itself (wait_for_previous_kernel), so that
// it may be brought to the multiprocessors while that one ends.
template <class... Args>
Status launch_dependent(const Launch& launch, const void* kernel, const char* what,
                        const LaunchShape& shape, const Args&... args) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (launch.compute_capability >= 90) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {shape.cluster, 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  const void* parameters[] = {&args...};
  return status_of(cudaLaunchKernelExC(&config, kernel, const_cast<void**>(parameters)), what);
}

}  // namespace quire::cuda
