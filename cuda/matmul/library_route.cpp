#include "matmul/library_route.h"

#include <algorithm>
#include <array>

#include "matmul/expand.h"
#include "matmul/kernel_table.h"
#include "matmul/library_products.h"

namespace quire::cuda {
namespace {

// From so many rows on the library is faster: with stream_tokens or for several matrices, for one
// matrix without, after expanding.
constexpr int kRows = 65;
constexpr int kSingleRows = 9;
constexpr int kExpandedRows = 385;

std::int64_t address(const DeviceMatrix& matrix) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(matrix.packed()));
}

Status expand(const Launch& launch, const DeviceMatrix& matrix, std::int64_t first_unit,
              std::int64_t units, std::byte* to) {
  ExpandArgs args;
  args.from = matrix.packed() + static_cast<std::size_t>(first_unit) * 2 * matrix.panel_stride();
  args.to = to;
  args.blocks = matrix.blocks();
  args.records = units * 2 * args.blocks;
  const std::array<std::uint32_t, 4> table = matrix.table();
  std::copy(table.begin(), table.end(), args.table);
  constexpr std::int64_t kWarps = kExpandThreads / 32;
  const dim3 grid(static_cast<unsigned>((args.records + kWarps - 1) / kWarps));
  void* arguments[] = {&args};
  return status_of(cudaLaunchKernel(kernels_of(matrix.kind()).expand, grid, dim3(kExpandThreads),
                                    arguments, 0, launch.stream),
                   "expansion of weights");
}

}  // namespace

bool suits_library(const Launch& launch, const ProductCall& call, const DeviceMatrix& matrix,
                   std::size_t scratch_bytes) {
  if (launch.deterministic || call.library == nullptr) return false;
  if (std::any_of(call.bias, call.bias + call.matrices,
                  [](const float* b) { return b != nullptr; })) {
    return false;
  }
  const bool aligned = matrix.columns() % 8 == 0 && call.out_stride % 8 == 0 &&
                       reinterpret_cast<std::uintptr_t>(call.input) % 16 == 0 &&
                       reinterpret_cast<std::uintptr_t>(call.out_float) % 16 == 0 &&
                       reinterpret_cast<std::uintptr_t>(call.out_bfloat16) % 16 == 0;
  if (!aligned || matrix.kind() == WeightKind::float32) return false;
  if (matrix.kind() == WeightKind::bfloat) {
    const bool single = call.matrices == 1 && call.count == 0 && launch.compute_capability != 90;
    return call.rows >= (single ? kSingleRows : kRows);
  }
  const std::size_t unit_bytes = static_cast<std::size_t>(matrix.padded_columns()) * 2 * kUnitRows;
  return call.rows >= kExpandedRows && scratch_bytes >= 16 * unit_bytes;
}

bool are_twins(const DeviceMatrix& matrix, const DeviceMatrix& second) {
  return matrix.kind() == WeightKind::bfloat && second.kind() == WeightKind::bfloat &&
         matrix.rows() == second.rows() && matrix.columns() == second.columns() &&
         address(matrix) < address(second);
}

Status multiply_by_library(const Launch& launch, const ProductCall& call,
                           const DeviceMatrix& matrix, const DeviceMatrix* twin,
                           std::int64_t out_column, std::byte* scratch, std::size_t scratch_bytes,
                           std::byte* library_workspace, std::size_t library_bytes) {
  const std::int64_t begin = call.count > 0 ? call.first : 0;
  const std::int64_t end = call.count > 0 ? begin + call.count : matrix.rows();
  const bool expands = matrix.kind() != WeightKind::bfloat;
  const auto row_bytes = static_cast<std::size_t>(matrix.padded_columns()) * 2;
  const auto most_units = static_cast<std::int64_t>(scratch_bytes / (row_bytes * kUnitRows));
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t unit = row / kUnitRows;
    const std::int64_t stop = expands ? std::min(end, (unit + most_units) * kUnitRows) : end;
    const std::byte* weights = matrix.packed() + static_cast<std::size_t>(row) * row_bytes;
    if (expands) {
      const std::int64_t units = (stop + kUnitRows - 1) / kUnitRows - unit;
      if (Status status = expand(launch, matrix, unit, units, scratch); !status) return status;
      weights = scratch + static_cast<std::size_t>(row - unit * kUnitRows) * row_bytes;
    }
    LibraryCall part;
    part.weights = reinterpret_cast<const __nv_bfloat16*>(weights);
    part.weight_stride = matrix.padded_columns();
    if (twin != nullptr) part.second = (address(*twin) - address(matrix)) / 2;
    part.input = call.input;
    part.rows = call.rows;
    part.outputs = stop - row;
    part.columns = matrix.columns();
    part.out_float = call.epilogue != Epilogue::store_bfloat16;
    const std::int64_t column = out_column + (row - begin);
    part.out = part.out_float ? static_cast<void*>(call.out_float + column)
                              : static_cast<void*>(call.out_bfloat16 + column);
    part.out_stride = call.out_stride;
    part.adds = call.epilogue == Epilogue::add_residual;
    part.scale = part.adds ? call.residual_scale : 1.0f;
    part.workspace = library_workspace;
    part.workspace_bytes = library_bytes;
    if (Status status = call.library->multiply(launch, part); !status) return status;
    row = stop;
  }
  return {};
}

}  // namespace quire::cuda
