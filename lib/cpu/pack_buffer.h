#pragma once

#include <cstddef>
#include <memory>

namespace quire::cpu {

class Mapping;  // anonymous memory of the system, given back by its destructor

// Zero-filled memory, aligned to 64 bytes. Its pages become real when a thread first writes to
// them.
class PackBuffer {
 public:
  PackBuffer() = default;  // empty

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  friend class PackArena;
  PackBuffer(std::shared_ptr<Mapping> mapping, std::byte* data, std::size_t size)
      : mapping_(std::move(mapping)), data_(data), size_(size) {}

  std::shared_ptr<Mapping> mapping_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Hands out buffers side by side from large mappings, so that small matrices too lie in huge pages:
// those read almost twice as fast. A mapping is given back when its last buffer is, the arena
// itself may go before. Used from one thread at a time.
class PackArena {
 public:
  // Mappings of at least `mapping_bytes`.
  explicit PackArena(std::size_t mapping_bytes = std::size_t{64} << 20)
      : mapping_bytes_(mapping_bytes) {}

  // An empty buffer if the system refuses the memory or `bytes` is 0. Throws std::bad_alloc.
  PackBuffer allocate(std::size_t bytes);

 private:
  std::size_t mapping_bytes_;
  std::shared_ptr<Mapping> mapping_;
  std::size_t used_ = 0;  // bytes of it
};

}  // namespace quire::cpu
