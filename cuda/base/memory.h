#pragma once

#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

#include <quire/status.h>

#include "device/device.h"

namespace quire::cuda {

// Memory of one device.
class CudaBuffer final : public DeviceBuffer {
 public:
  // Not cleared. Errors: out_of_memory, with the bytes that were free.
  static Result<std::unique_ptr<CudaBuffer>> create(int ordinal, std::size_t bytes);
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  ~CudaBuffer() override;
  std::byte* data() override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  CudaBuffer(int ordinal, std::byte* data, std::size_t size)
      : ordinal_(ordinal), data_(data), size_(size) {}
  int ordinal_;
  std::byte* data_;
  std::size_t size_;
};

// Memory of the host that the device copies from and to without help of the driver.
struct PinnedFree {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};
using PinnedBytes = std::unique_ptr<std::byte, PinnedFree>;
Result<PinnedBytes> pinned_bytes(std::size_t bytes);

struct StreamDestroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<CUstream_st, StreamDestroy>;
Result<Stream> create_stream();

struct EventDestroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, EventDestroy>;
Result<Event> create_event();

}  // namespace quire::cuda
