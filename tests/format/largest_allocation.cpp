// Replaces operator new of this test program, to see what hostile sizes ask for.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "test_files.h"

namespace {
std::atomic<std::size_t> largest{0};
}

std::size_t take_largest_allocation() {
  return largest.exchange(0);
}

void* operator new(std::size_t size) {
  std::size_t seen = largest.load();
  while (size > seen && !largest.compare_exchange_weak(seen, size)) {
  }
  if (void* memory = std::malloc(std::max<std::size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(std::max<std::size_t>(size, 1));
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
