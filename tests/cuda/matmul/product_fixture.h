#pragma once

#include <memory>
#include <vector>

#include "cuda/device_memory.h"
#include "matmul/library_products.h"
#include "matmul/product.h"
#include "weights.h"

namespace quire::test {

// A stream, a workspace and what a launch needs to know.
class ProductFixture : public DeviceStream {
 public:
  explicit ProductFixture(bool deterministic = false)
      : workspace_(std::vector<std::byte>(cuda::product_workspace_bytes(1024, 8192))) {
    launch.deterministic = deterministic;
    launch.compute_capability = testing::compute_capability();
  }

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

  std::unique_ptr<cuda::LibraryProducts> library;  // none unless a test opens it

 private:
  DeviceMemory<std::byte> workspace_;
};

// Random activations, exact in bfloat16: as floats and as the device has them.
struct Input {
  std::vector<float> values;
  DeviceMemory<__nv_bfloat16> device;

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
