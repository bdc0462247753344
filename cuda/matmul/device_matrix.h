#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <cuda_runtime_api.h>

#include "device/packed_matrix.h"
#include "matmul/weight_kind.h"
#include "tensor/dtype.h"

namespace quire::cuda {

struct DeviceFree {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceBytes = std::unique_ptr<std::byte, DeviceFree>;

// A weight matrix [out][in] in device memory: see WeightKind. A matrix to gather from whose packed
// form is not exact keeps its stored rows too.
class DeviceMatrix final : public PackedMatrix {
 public:
  DeviceMatrix(DType type, std::int64_t rows, std::int64_t columns)
      : PackedMatrix(rows, columns), type_(type), kind_(kind_of(type)) {}

  std::size_t bytes() const override { return bytes_; }

  DType type() const { return type_; }
  WeightKind kind() const { return kind_; }
  // Blocks of 64 columns, the last one padded with zero weights.
  int blocks() const { return static_cast<int>((columns() + kBlockColumns - 1) / kBlockColumns); }
  std::int64_t units() const { return (rows() + kUnitRows - 1) / kUnitRows; }
  std::int64_t padded_columns() const { return std::int64_t{blocks()} * kBlockColumns; }
  // Bytes from one panel to the next.
  std::size_t panel_stride() const {
    return static_cast<std::size_t>(blocks()) *
           (kind_ == WeightKind::bfloat ? kPanelRows * kBlockColumns * 2 : record_bytes(kind_));
  }
  const std::byte* packed() const { return packed_.get(); }
  // Rows to gather from, of type(), or of bf16 for the kind bfloat without stored rows; null: none.
  const std::byte* gather_rows() const { return stored_ ? stored_.get() : exact_rows_; }
  DType gather_type() const { return stored_ ? type_ : DType::bf16; }
  std::size_t gather_stride() const { return gather_stride_; }
  // The values of the 16 codes of code4_table.
  std::array<std::uint32_t, 4> table() const;

 private:
  friend class MatrixPacker;
  DType type_;
  WeightKind kind_;
  DeviceBytes packed_;
  DeviceBytes stored_;
  const std::byte* exact_rows_ = nullptr;
  std::size_t gather_stride_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace quire::cuda
