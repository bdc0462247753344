#include "matmul/gate_parts.h"

#include <algorithm>

#include "base/error.h"
#include "matmul/gated.h"

namespace quire::cuda {
namespace {

constexpr int kRowTile = 256;  // rows of a tile of the library's kernels divide it

// How many of `rows` rows at a time where memory holds `fit`: parts of one size, as a small last
// one would leave multiprocessors idle.
int rows_at_a_time(int rows, std::int64_t fit) {
  if (fit >= rows) return rows;
  const auto parts = (rows + fit - 1) / fit;
  const auto even = (rows + parts - 1) / parts;
  const auto tiles = (even + kRowTile - 1) / kRowTile * kRowTile;
  return static_cast<int>(std::min(tiles, fit));
}

// Calls run(part) for some rows after the others; a row takes `row_bytes` of memory.
template <class Run>
Status in_parts(const ProductCall& call, const GateMemory& memory, std::size_t row_bytes, Run run) {
  const auto fit = static_cast<std::int64_t>(memory.bytes / row_bytes);
  if (fit < 1) {
    return error(StatusCode::internal, "product: {} bytes of workspace for rows of {}",
                 memory.bytes, row_bytes);
  }
  const int most = rows_at_a_time(call.rows, fit);
  for (int done = 0; done < call.rows; done += most) {
    ProductCall part = call;
    part.rows = std::min(most, call.rows - done);
    part.input += done * call.weights[0]->columns();
    part.out_bfloat16 += done * call.out_stride;
    if (Status status = run(part); !status) return status;
  }
  return {};
}

}  // namespace

Status gate_apart(const Launch& launch, const ProductCall& call, const GateMemory& memory) {
  const std::int64_t width = call.weights[0]->rows();
  auto* values = reinterpret_cast<float*>(memory.data);
  const auto run = [&](const ProductCall& part) {
    ProductCall both = part;
    both.epilogue = Epilogue::store_float;
    both.out_float = values;
    both.out_bfloat16 = nullptr;
    both.out_stride = 2 * width;
    if (Status status = product(launch, both); !status) return status;
    return apply_gate(launch, part.epilogue, values, part.rows, static_cast<int>(width),
                      part.out_bfloat16, part.out_stride);
  };
  return in_parts(call, memory, static_cast<std::size_t>(width) * 2 * sizeof(float), run);
}

Status gate_in_place(const Launch& launch, const ProductCall& call, const GateMemory& memory) {
  const std::int64_t width = call.weights[0]->rows();
  auto* others = reinterpret_cast<__nv_bfloat16*>(memory.data);
  const auto run = [&](const ProductCall& part) {
    ProductCall one = part;
    one.epilogue = Epilogue::store_bfloat16;
    one.matrices = 1;
    if (Status status = product(launch, one); !status) return status;
    one.weights[0] = part.weights[1];
    one.bias[0] = part.bias[1];
    one.out_bfloat16 = others;
    one.out_stride = width;
    if (Status status = product(launch, one); !status) return status;
    return apply_gate_in_place(launch, part.epilogue, others, part.rows, static_cast<int>(width),
                               part.out_bfloat16, part.out_stride);
  };
  return in_parts(call, memory, static_cast<std::size_t>(width) * sizeof(__nv_bfloat16), run);
}

}  // namespace quire::cuda
