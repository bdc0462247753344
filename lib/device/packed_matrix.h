#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <quire/status.h>

#include "tensor/tensor_view.h"

namespace quire {

// A weight matrix in the form in which its device multiplies it. Made by Device::pack; owned by the
// model; used only with the device that made it.
class PackedMatrix {
 public:
  PackedMatrix(std::int64_t rows, std::int64_t columns) : rows_(rows), columns_(columns) {}
  virtual ~PackedMatrix() = default;
  PackedMatrix(const PackedMatrix&) = delete;
  PackedMatrix& operator=(const PackedMatrix&) = delete;

  std::int64_t rows() const { return rows_; }        // out-features
  std::int64_t columns() const { return columns_; }  // in-features
  virtual std::size_t bytes() const = 0;  // of memory that it holds, mapped files excluded

 private:
  std::int64_t rows_;
  std::int64_t columns_;
};

// What pack needs to know beside the stored weights.
struct PackSpec {
  // Row r of the packed matrix is stored row `unpermute_heads`-wise: 0 keeps the order; h > 0
  // undoes the converter's per-head reordering of Q and K rows for h heads, so that RoPE rotates
  // halves.
  int unpermute_heads = 0;
  bool gather = false;  // rows are also read one by one (token embedding)
};

// Checks what every device asks of a stored matrix: a type of weights in whole blocks, a shape that
// fills its bytes, heads of an even size. Errors: unsupported, malformed, internal; each names the
// tensor and both numbers.
Status check_matrix(const TensorView& stored, const PackSpec& spec);

// A linear map y = W x + b of the model.
struct Linear {
  std::unique_ptr<PackedMatrix> weight;  // [out][in]; null: this layer does not have it
  const float* bias = nullptr;           // [out], or null
};

}  // namespace quire
