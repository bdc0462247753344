#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <quire/engine_options.h>
#include <quire/status.h>

#include "base/memory.h"
#include "base/thread_pool.h"

namespace quire::cuda {

// Copies weights from mapped files to the device: threads read a chunk into pinned memory while the
// chunk before it travels. Exists while a model is loaded.
class Uploader {
 public:
  static Result<std::unique_ptr<Uploader>> create(int ordinal, const EngineOptions& options);

  // Queues the copy to device memory that stays as it is until the next call's copy is queued on
  // the stream; the bytes may be forgotten when the call returns.
  Result<const std::byte*> upload(cudaStream_t stream, std::span<const std::byte> bytes);

 private:
  static constexpr std::size_t kChunk = std::size_t{16} << 20;
  struct Piece {
    PinnedBytes memory;
    Event sent;
  };
  explicit Uploader(int ordinal) : ordinal_(ordinal) {}
  void read(std::span<const std::byte> from, std::byte* to);

  int ordinal_;
  std::unique_ptr<ThreadPool> readers_;
  std::array<Piece, 3> pieces_;
  std::size_t next_ = 0;
  std::unique_ptr<CudaBuffer> target_;
};

}  // namespace quire::cuda
