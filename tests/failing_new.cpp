#include "failing_new.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace quire::test {
namespace {

std::atomic<bool> armed{false}, failed{false}, always{false};
std::atomic<long> left{0};
std::atomic<long> blocks{0}, bytes{0};

bool must_fail() {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const long n = left.fetch_sub(1, std::memory_order_relaxed);
  if (n > 1 || (n < 1 && !always.load(std::memory_order_relaxed))) return false;
  failed.store(true, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (must_fail()) throw std::bad_alloc();
  if (size == 0) size = 1;
  void* block = alignment == 0
                    ? std::malloc(size)
                    : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  blocks.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<long>(malloc_usable_size(block)), std::memory_order_relaxed);
  return block;
}

void* allocate_or_null(std::size_t size, std::size_t alignment) {
  try {
    return allocate(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void give_back(void* block) {
  if (block == nullptr) return;
  blocks.fetch_sub(1, std::memory_order_relaxed);
  bytes.fetch_sub(static_cast<long>(malloc_usable_size(block)), std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

FailingNew::FailingNew(long nth, Mode mode) {
  quire::test::left = nth;
  failed = false;
  always = mode == Mode::always;
  armed = true;
}
FailingNew::~FailingNew() {
  armed = false;
}
bool FailingNew::fired() const {
  return failed;
}

long FailingNew::left() const {
  return quire::test::left;
}

long live_allocations() {
  return blocks;
}

long live_bytes() {
  return bytes;
}

}  // namespace quire::test

// All forms: those of a sanitizer's runtime do not call the plain ones.
void* operator new(std::size_t size) {
  return quire::test::allocate(size, 0);
}
void* operator new[](std::size_t size) {
  return quire::test::allocate(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return quire::test::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return quire::test::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return quire::test::allocate_or_null(size, 0);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return quire::test::allocate_or_null(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return quire::test::allocate_or_null(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return quire::test::allocate_or_null(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  quire::test::give_back(block);
}
void operator delete[](void* block) noexcept {
  quire::test::give_back(block);
}
void operator delete(void* block, std::size_t) noexcept {
  quire::test::give_back(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  quire::test::give_back(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  quire::test::give_back(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
  quire::test::give_back(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  quire::test::give_back(block);
}
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
  quire::test::give_back(block);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
  quire::test::give_back(block);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
  quire::test::give_back(block);
}
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  quire::test::give_back(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  quire::test::give_back(block);
}
