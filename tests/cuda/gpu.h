#pragma once

#include <cuda_runtime_api.h>

#include "catch.h"

namespace quire::testing {

// Whether there is a GPU to test on; says so if not.
inline bool has_gpu() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return true;
  WARN("skipped: no GPU");
  return false;
}

// As Launch has it, the major number alone: 90 for all of 9.x.
inline int compute_capability() {
  int major = 0;
  REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  return 10 * major;
}

}  // namespace quire::testing
