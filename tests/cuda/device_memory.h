#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "base/launch.h"
#include "catch.h"
#include "cuda/gpu.h"

namespace quire::test {

using testing::has_gpu;

// Device memory that starts as bytes of 0xff: NaN in every floating-point type, -1 as an integer.
template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count) : count_(count) {
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, count * sizeof(T) + 16) == cudaSuccess);
    memory_.reset(static_cast<T*>(memory));
    poison();
  }
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size()) {
    write(values);
  }
  void poison() {
    REQUIRE(cudaMemset(memory_.get(), 0xff, count_ * sizeof(T) + 16) == cudaSuccess);
  }
  void write(const std::vector<T>& values) {
    REQUIRE(values.size() <= count_);
    REQUIRE(cudaMemcpy(get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  T* get() const { return memory_.get(); }
  std::size_t size() const { return count_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    const cudaError_t finished = cudaDeviceSynchronize();
    INFO(cudaGetErrorString(finished));
    REQUIRE(finished == cudaSuccess);
    REQUIRE(cudaMemcpy(values.data(), get(), count_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }

 private:
  struct Free {
    void operator()(T* memory) const { cudaFree(memory); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t count_;
};

class DeviceStream {
 public:
  DeviceStream() {
    int device = 0;
    REQUIRE(cudaGetDevice(&device) == cudaSuccess);
    REQUIRE(cudaDeviceGetAttribute(&launch.multiprocessors, cudaDevAttrMultiProcessorCount,
                                   device) == cudaSuccess);
    REQUIRE(cudaStreamCreate(&launch.stream) == cudaSuccess);
  }
  ~DeviceStream() { cudaStreamDestroy(launch.stream); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  cuda::Launch launch;
};

inline void require_ok(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

}  // namespace quire::test
