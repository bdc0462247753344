#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "catch.h"

namespace quire::testing {

// An array in device memory; every byte that nobody writes is part of a NaN.
template <class T>
class DeviceValues {
 public:
  explicit DeviceValues(std::size_t count) : count_(count) {
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, count * sizeof(T) + 1) == cudaSuccess);
    data_ = static_cast<T*>(memory);
    REQUIRE(cudaMemset(memory, 0xff, count * sizeof(T)) == cudaSuccess);
  }
  explicit DeviceValues(const std::vector<T>& values) : DeviceValues(values.size()) {
    REQUIRE(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;
  ~DeviceValues() { cudaFree(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

inline std::vector<float> to_floats(const std::vector<__nv_bfloat16>& values) {
  std::vector<float> floats;
  for (const __nv_bfloat16 value : values) floats.push_back(__bfloat162float(value));
  return floats;
}

}  // namespace quire::testing
