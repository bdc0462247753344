#pragma once

#include "cuda/gpu.h"

namespace quire::test {

// Says so where there is no GPU for the Hopper kernels, whose tests are then skipped.
inline bool no_hopper() {
  if (!testing::has_gpu()) return true;
  int minor = 0;
  REQUIRE(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) == cudaSuccess);
  if (testing::compute_capability() + minor == 90) return false;
  WARN("skipped: no GPU of compute capability 9.0");
  return true;
}

}  // namespace quire::test
