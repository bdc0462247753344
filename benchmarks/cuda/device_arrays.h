#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include <quire/status.h>

// What the benchmarks of attention have in common. A failure ends the program.
namespace benchmarks {

inline void require(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(code));
  std::exit(1);
}
inline void require(const quire::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

// Device memory.
struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};
template <class T>
using Memory = std::unique_ptr<T, Free>;
template <class T>
Memory<T> device(std::size_t count) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, count * sizeof(T)));
  return Memory<T>(static_cast<T*>(memory));
}
inline Memory<int> device(const std::vector<int>& values) {
  auto memory = device<int>(values.size());
  require(cudaMemcpy(memory.get(), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
  return memory;
}

}  // namespace benchmarks
