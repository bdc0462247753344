#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace quire {

// A stored tensor, already checked against its file: `bytes` holds exactly the elements that type
// and shape say, at any address (no alignment is promised). Does not own the bytes.
struct TensorView {
  std::string name;  // as in the file, for messages
  DType type = DType::f32;
  // Outermost first, as in C and PyTorch (GGUF's order reversed); a matrix is {rows, columns} with
  // columns contiguous. Unused leading dimensions are absent: `dimensions` says how many there are.
  std::array<std::int64_t, 4> shape{};
  int dimensions = 0;
  std::span<const std::byte> bytes;

  std::int64_t columns() const { return dimensions > 0 ? shape[dimensions - 1] : 1; }
  std::int64_t rows() const {  // product of all but the last dimension
    std::int64_t n = 1;
    for (int i = 0; i + 1 < dimensions; ++i) n *= shape[i];
    return n;
  }
  std::int64_t elements() const { return rows() * columns(); }
  std::size_t row_size() const { return *row_bytes(type, columns()); }  // bytes
  // Rows [first, first + count) as a matrix of their own.
  TensorView row_range(std::int64_t first, std::int64_t count) const {
    TensorView view = *this;
    view.dimensions = 2;
    view.shape = {count, columns(), 0, 0};
    view.bytes = bytes.subspan(static_cast<std::size_t>(first) * row_size(),
                               static_cast<std::size_t>(count) * row_size());
    return view;
  }
};

}  // namespace quire
