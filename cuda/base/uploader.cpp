#include "base/uploader.h"

#include <algorithm>
#include <cstring>

#include "base/launch.h"

namespace quire::cuda {
namespace {

constexpr int kMostReaders = 8;

}  // namespace

Result<std::unique_ptr<Uploader>> Uploader::create(int ordinal, const EngineOptions& options) {
  std::unique_ptr<Uploader> uploader(new Uploader(ordinal));
  ThreadPoolOptions pool;
  pool.threads =
      std::min(options.threads > 0 ? options.threads : available_processors(), kMostReaders);
  pool.executor = options.executor;
  auto readers = ThreadPool::create(pool);
  if (!readers) return readers.status();
  uploader->readers_ = std::move(*readers);
  for (Piece& piece : uploader->pieces_) {
    auto memory = pinned_bytes(kChunk);
    if (!memory) return memory.status();
    auto sent = create_event();
    if (!sent) return sent.status();
    piece.memory = std::move(*memory);
    piece.sent = std::move(*sent);
  }
  return uploader;
}

void Uploader::read(std::span<const std::byte> from, std::byte* to) {
  auto body = [&](int worker, int workers) {
    const std::size_t each = (from.size() / static_cast<std::size_t>(workers) + 4096) & ~4095ul;
    const std::size_t first = std::min(from.size(), each * static_cast<std::size_t>(worker));
    const std::size_t last =
        worker + 1 == workers ? from.size() : std::min(from.size(), first + each);
    if (last > first) std::memcpy(to + first, from.data() + first, last - first);
  };
  readers_->run(body);
}

Result<const std::byte*> Uploader::upload(cudaStream_t stream, std::span<const std::byte> bytes) {
  if (target_ == nullptr || target_->size() < bytes.size()) {
    if (Status s = status_of(cudaStreamSynchronize(stream), "loading weights"); !s.ok()) return s;
    target_.reset();
    auto target = CudaBuffer::create(ordinal_, bytes.size());
    if (!target) return target.status();
    target_ = std::move(*target);
  }
  for (std::size_t done = 0; done < bytes.size(); done += kChunk) {
    const std::span<const std::byte> chunk =
        bytes.subspan(done, std::min(kChunk, bytes.size() - done));
    Piece& piece = pieces_[next_++ % pieces_.size()];
    Status status = status_of(cudaEventSynchronize(piece.sent.get()), "loading weights");
    if (!status.ok()) return status;
    read(chunk, piece.memory.get());
    status = status_of(cudaMemcpyAsync(target_->data() + done, piece.memory.get(), chunk.size(),
                                       cudaMemcpyHostToDevice, stream),
                       "copying weights");
    if (!status.ok()) return status;
    status = status_of(cudaEventRecord(piece.sent.get(), stream), "cudaEventRecord");
    if (!status.ok()) return status;
  }
  return target_->data();
}

}  // namespace quire::cuda
