#include "cpu/pack_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "cpu/huge_pages.h"

namespace quire::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 64;

}  // namespace

// `size` bytes that begin at a huge page; none if the system refuses them.
class Mapping {
 public:
  explicit Mapping(std::size_t size) {
    const std::optional<std::size_t> mapped_size = checked_add(size, kHugePage);
    if (!mapped_size) return;
    void* mapped =
        mmap(nullptr, *mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    // More was mapped than is needed: give the ends back.
    std::byte* begin = static_cast<std::byte*>(mapped);
    const std::size_t head =
        (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
    if (head > 0) munmap(begin, head);
    munmap(begin + head + size, kHugePage - head);
    data_ = begin + head;
    size_ = size;
    advise_huge_pages(data_, size_);
  }
  ~Mapping() {
    if (data_) munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

PackBuffer PackArena::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX - kHugePage) return {};
  if (!mapping_ || mapping_->size() - used_ < bytes) {
    const std::size_t least = round_up(bytes, kHugePage);
    auto mapping = std::make_shared<Mapping>(std::max(mapping_bytes_, least));
    if (!mapping->data()) mapping = std::make_shared<Mapping>(least);
    if (!mapping->data()) return {};
    mapping_ = std::move(mapping);
    used_ = 0;
  }
  std::byte* data = mapping_->data() + used_;
  used_ = std::min(mapping_->size(), used_ + round_up(bytes, kAlignment));
  return PackBuffer(mapping_, data, bytes);
}

}  // namespace quire::cpu
