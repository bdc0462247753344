#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <quire/status.h>

namespace quire {

// A whole file mapped read-only. Movable; unmapped by the destructor. Where the system cannot map
// the file (a pipe, say), opening fails.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Tells the system that these bytes are not needed any more; reading them again still works.
  static void release(std::span<const std::byte> bytes);

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace quire
