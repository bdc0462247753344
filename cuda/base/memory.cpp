#include "base/memory.h"

#include <algorithm>

#include "base/current_device.h"
#include "base/error.h"
#include "base/launch.h"

namespace quire::cuda {

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::create(int ordinal, std::size_t bytes) {
  const CurrentDevice current(ordinal);
  if (!current.status().ok()) return current.status();
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return error(StatusCode::out_of_memory, "cuda:{}: {} bytes are wanted, {} of {} are free",
                 ordinal, bytes, free, total);
  }
  if (code != cudaSuccess) return status_of(code, "cudaMalloc");
  return guarded("CudaBuffer", [&]() -> Result<std::unique_ptr<CudaBuffer>> {
    try {
      return std::unique_ptr<CudaBuffer>(
          new CudaBuffer(ordinal, static_cast<std::byte*>(data), bytes));
    } catch (...) {
      cudaFree(data);
      throw;
    }
  });
}

CudaBuffer::~CudaBuffer() {
  const CurrentDevice current(ordinal_);
  cudaFree(data_);
}

Result<PinnedBytes> pinned_bytes(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t code =
      cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault);
  if (code != cudaSuccess) {
    cudaGetLastError();
    return error(StatusCode::out_of_memory, "{} bytes of pinned memory: {}", bytes,
                 cudaGetErrorString(code));
  }
  return PinnedBytes(static_cast<std::byte*>(data));
}

Result<Stream> create_stream() {
  cudaStream_t stream = nullptr;
  const Status status = status_of(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                  "cudaStreamCreateWithFlags");
  if (!status.ok()) return status;
  return Stream(stream);
}

Result<Event> create_event() {
  cudaEvent_t event = nullptr;
  const Status status = status_of(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                  "cudaEventCreateWithFlags");
  if (!status.ok()) return status;
  return Event(event);
}

}  // namespace quire::cuda
