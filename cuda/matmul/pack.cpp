#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "matmul/device_matrix.h"
#include "matmul/pack_kernels.h"
#include "matmul/product.h"

namespace quire::cuda {
namespace {

constexpr std::int64_t kMostColumns = std::int64_t{1} << 24;  // of the kernels' 32-bit counts

Status check_stored(const TensorView& stored, const PackSpec& spec) {
  if (Status status = check_matrix(stored, spec); !status.ok()) return status;
  if (stored.columns() <= kMostColumns) return {};
  return error(StatusCode::unsupported, "{}: {} columns, a GPU multiplies at most {}", stored.name,
               stored.columns(), kMostColumns);
}

Result<DeviceBytes> allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (Status status = status_of(cudaMalloc(&memory, bytes), "memory for a weight matrix");
      !status) {
    return status;
  }
  return DeviceBytes(static_cast<std::byte*>(memory));
}

std::size_t packed_bytes(const DeviceMatrix& matrix) {
  return static_cast<std::size_t>(matrix.units()) * 2 * matrix.panel_stride();
}

// Stored rows are kept to gather from where the packed form is not exact.
bool keeps_rows(DType type, const PackSpec& spec) {
  return spec.gather && type != DType::bf16;
}

}  // namespace

std::array<std::uint32_t, 4> DeviceMatrix::table() const {
  if (type_ == DType::mxfp4) return {0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc};
  return {0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535};
}

class MatrixPacker {
 public:
  static Result<std::unique_ptr<PackedMatrix>> pack(const Launch& launch, const std::byte* stored,
                                                    DType type, std::int64_t rows,
                                                    std::int64_t columns, const PackSpec& spec) {
    auto matrix = std::make_unique<DeviceMatrix>(type, rows, columns);
    matrix->bytes_ = packed_matrix_bytes(type, rows, columns, spec);
    const std::size_t row = *row_bytes(type, columns);
    Result<DeviceBytes> packed = allocate(packed_bytes(*matrix));
    if (!packed) return packed.status();
    matrix->packed_ = *std::move(packed);
    if (keeps_rows(type, spec)) {
      Result<DeviceBytes> copy = allocate(row * static_cast<std::size_t>(rows));
      if (!copy) return copy.status();
      matrix->stored_ = *std::move(copy);
      matrix->gather_stride_ = row;
      const Status status = status_of(
          cudaMemcpyAsync(matrix->stored_.get(), stored, row * static_cast<std::size_t>(rows),
                          cudaMemcpyDeviceToDevice, launch.stream),
          "copy of a gathered matrix");
      if (!status) return status;
    } else if (spec.gather) {
      matrix->exact_rows_ = matrix->packed();
      matrix->gather_stride_ = static_cast<std::size_t>(matrix->padded_columns()) * 2;
    }
    const DTypeInfo& entry = info(type);
    const StoredRows from{stored,
                          type,
                          entry.block,
                          entry.block_bytes,
                          rows,
                          columns,
                          static_cast<std::int64_t>(row),
                          spec.unpermute_heads};
    if (Status status = launch_packing(launch, from, *matrix); !status) return status;
    return std::unique_ptr<PackedMatrix>(std::move(matrix));
  }

 private:
  static Status launch_packing(const Launch& launch, const StoredRows& from, DeviceMatrix& matrix) {
    std::byte* to = matrix.packed_.get();
    if (matrix.kind() == WeightKind::bfloat) {
      return pack_rows(launch, from, matrix.units() * kUnitRows, matrix.padded_columns(),
                       reinterpret_cast<__nv_bfloat16*>(to));
    }
    return pack_panels(launch, from, matrix.kind(), matrix.units() * 2, matrix.blocks(), to);
  }
};

std::size_t packed_matrix_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                const PackSpec& spec) {
  const std::size_t row = row_bytes(type, columns).value_or(0);
  return packed_bytes(DeviceMatrix(type, rows, columns)) +
         (keeps_rows(type, spec) ? row * static_cast<std::size_t>(rows) : 0);
}

Result<std::unique_ptr<PackedMatrix>> pack_device_rows(const Launch& launch, const std::byte* rows,
                                                       const TensorView& stored,
                                                       const PackSpec& spec) {
  if (Status status = check_stored(stored, spec); !status) return status;
  return MatrixPacker::pack(launch, rows, stored.type, stored.rows(), stored.columns(), spec);
}

Result<std::unique_ptr<PackedMatrix>> pack_matrix(const Launch& launch, const TensorView& stored,
                                                  const PackSpec& spec) {
  if (Status status = check_stored(stored, spec); !status) return status;
  Result<DeviceBytes> staging = allocate(stored.bytes.size());
  if (!staging) return staging.status();
  Status status =
      status_of(cudaMemcpyAsync(staging->get(), stored.bytes.data(), stored.bytes.size(),
                                cudaMemcpyHostToDevice, launch.stream),
                "upload of a weight matrix");
  if (!status) return status;
  auto matrix = MatrixPacker::pack(launch, staging->get(), stored.type, stored.rows(),
                                   stored.columns(), spec);
  status = status_of(cudaStreamSynchronize(launch.stream), "packing of a weight matrix");
  if (!status) return status;
  return matrix;
}

}  // namespace quire::cuda
