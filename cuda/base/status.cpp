#include "base/error.h"
#include "base/launch.h"

namespace quire::cuda {

Status status_of(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  cudaGetLastError();  // or the next launch would be told of it too
  const StatusCode kind =
      code == cudaErrorMemoryAllocation ? StatusCode::out_of_memory : StatusCode::device_error;
  return error(kind, "{}: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

}  // namespace quire::cuda
