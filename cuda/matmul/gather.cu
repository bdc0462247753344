#include "matmul/device_matrix.h"
#include "matmul/instructions.cuh"
#include "matmul/product.h"
#include "matmul/stored_blocks.cuh"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

struct Table {
  const Byte* rows;
  DType type;
  int block, block_bytes;
  std::int64_t count, columns;
  std::size_t stride;
};

// Columns of one thread block: few, for there may be one row only.
constexpr int kColumns = 2 * kThreads;

// A row of the output and kColumns of it for each block; an id outside the table gives zeros.
__global__ void gather(Table table, const std::int32_t* tokens, float scale, float* out) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const std::int64_t token = tokens[blockIdx.x];
  const bool inside = token >= 0 && token < table.count;
  const Byte* row = table.rows + (inside ? token : 0) * table.stride;
  out += blockIdx.x * table.columns;
  const std::int64_t first = std::int64_t{blockIdx.y} * kColumns;
  const std::int64_t end = min(first + kColumns, table.columns);
  for (std::int64_t i = first + threadIdx.x; i < end; i += kThreads) {
    const float value =
        inside ? stored_value(table.type, table.block, table.block_bytes, row, i) : 0.0f;
    out[i] = __fmul_rn(value, scale);
  }
}

}  // namespace

Status gather_rows(const Launch& launch, const PackedMatrix& table, const std::int32_t* tokens,
                   int rows, float scale, float* out) {
  const auto* matrix = dynamic_cast<const DeviceMatrix*>(&table);
  if (matrix == nullptr || matrix->gather_rows() == nullptr) {
    return Status(StatusCode::internal, "gather_rows: a matrix not packed to gather from");
  }
  if (rows <= 0) return {};
  const DTypeInfo& entry = info(matrix->gather_type());
  const Table view{reinterpret_cast<const Byte*>(matrix->gather_rows()),
                   matrix->gather_type(),
                   entry.block,
                   entry.block_bytes,
                   table.rows(),
                   table.columns(),
                   matrix->gather_stride()};
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>((table.columns() + kColumns - 1) / kColumns));
  gather<<<grid, kThreads, 0, launch.stream>>>(view, tokens, scale, out);
  return status_of(cudaGetLastError(), "gather_rows");
}

}  // namespace quire::cuda
