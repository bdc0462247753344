#pragma once

#include <cuda_runtime_api.h>

#include <quire/status.h>

namespace quire::cuda {

// The Status of a CUDA call; `what` names the call or the kernel. ok for cudaSuccess;
// out_of_memory for cudaErrorMemoryAllocation; else device_error with CUDA's own name and text.
Status status_of(cudaError_t code, const char* what);

// What a kernel launch needs to know about where it runs. Everything a launcher does is queued on
// the stream and may be captured into a graph: no allocation, no synchronisation, no host memory
// read after the call returns.
struct Launch {
  cudaStream_t stream = nullptr;
  int multiprocessors = 0;
  int compute_capability = 0;  // 90: 9.0
  bool deterministic = false;  // a row's bits depend on its own inputs only
};

}  // namespace quire::cuda
