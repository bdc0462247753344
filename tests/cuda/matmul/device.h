#pragma once

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "catch.h"
#include "matmul/library_products.h"
#include "matmul/product.h"
#include "weights.h"

namespace quire::test {

inline bool no_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return false;
  WARN("skipped: no CUDA device");
  return true;
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, count * sizeof(T)) == cudaSuccess);
    memory_.reset(static_cast<T*>(memory));
    REQUIRE(cudaMemset(memory, 0, count * sizeof(T)) == cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    REQUIRE(cudaMemcpy(get(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  T* get() const { return memory_.get(); }
  std::size_t size() const { return count_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
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

inline DeviceArray<float> poisoned(std::size_t count) {
  return DeviceArray<float>(std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
}

// A stream, a workspace and what a launch needs to know.
class ProductFixture {
 public:
  explicit ProductFixture(bool deterministic = false)
      : workspace_(cuda::product_workspace_bytes(1024, 8192)) {
    launch.deterministic = deterministic;
    int device = 0;
    REQUIRE(cudaGetDevice(&device) == cudaSuccess);
    REQUIRE(cudaDeviceGetAttribute(&launch.multiprocessors, cudaDevAttrMultiProcessorCount,
                                   device) == cudaSuccess);
    REQUIRE(cudaStreamCreate(&launch.stream) == cudaSuccess);
  }
  ~ProductFixture() { cudaStreamDestroy(launch.stream); }
  ProductFixture(const ProductFixture&) = delete;
  ProductFixture& operator=(const ProductFixture&) = delete;

  std::unique_ptr<PackedMatrix> pack(const StoredMatrix& matrix, PackSpec spec = {}) const {
    auto packed = cuda::pack_matrix(launch, matrix.view(), spec);
    if (!packed.ok()) FAIL(packed.status().message());
    CHECK((*packed)->bytes() ==
          cuda::packed_matrix_bytes(matrix.type, matrix.rows, matrix.columns, spec));
    return *std::move(packed);
  }
  void run(cuda::ProductCall call) const {
    call.workspace = workspace_.get();
    call.workspace_bytes = workspace_.size();
    call.library = library.get();
    const Status status = cuda::product(launch, call);
    if (!status.ok()) FAIL(status.message());
  }

  cuda::Launch launch;
  std::unique_ptr<cuda::LibraryProducts> library;  // none unless a test opens it

 private:
  DeviceArray<std::byte> workspace_;
};

// Random activations, exact in bfloat16: as floats and as the device has them.
struct Input {
  std::vector<float> values;
  DeviceArray<__nv_bfloat16> device;

  Input(std::int64_t rows, std::int64_t columns, std::mt19937_64& random)
      : values(static_cast<std::size_t>(rows * columns)),
        device(static_cast<std::size_t>(rows * columns)) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<std::uint16_t> bits(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      bits[i] = float_to_bfloat16(normal(random));
      values[i] = bfloat16_to_float(bits[i]);
    }
    REQUIRE(cudaMemcpy(device.get(), bits.data(), bits.size() * 2, cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
};

inline double exact_product(const StoredMatrix& matrix, std::int64_t row, const Input& input,
                            std::int64_t token) {
  double sum = 0;
  for (std::int64_t k = 0; k < matrix.columns; ++k) {
    sum += static_cast<double>(matrix.values[static_cast<std::size_t>(row * matrix.columns + k)]) *
           input.values[static_cast<std::size_t>(token * matrix.columns + k)];
  }
  return sum;
}

}  // namespace quire::test
