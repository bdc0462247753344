#pragma once

#include <cstdint>

#include "matmul/product_args.h"

namespace quire::cuda {

// The part of a unit of `unit_rows` rows, and the panels that it is made of.
struct UnitPlace {
  int part = 0;
  int row = 0;  // of the part's matrix, of the unit's first row

  __device__ __forceinline__ UnitPlace(const ProductArgs& args, int unit,
                                       int unit_rows = kUnitRows) {
    if (args.gated) {
      row = unit * (unit_rows / 2);
      return;
    }
    while (part + 1 < args.part_count && unit >= args.parts[part + 1].first_unit) ++part;
    row = (unit - args.parts[part].first_unit + args.parts[part].skipped_units) * unit_rows;
  }
  __device__ __forceinline__ const std::byte* panel(const ProductArgs& args, int which) const {
    const std::size_t index = static_cast<std::size_t>(row / kPanelRows) + (args.gated ? 0 : which);
    return args.parts[args.gated ? which : part].weights + index * args.panel_stride;
  }
};

__device__ __forceinline__ float gate_value(Epilogue epilogue, float x) {
  if (epilogue == Epilogue::gated_silu) return __fdividef(x, 1.0f + __expf(-x));
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}

// The outputs of one unit: its row `r` for a token.
class Outputs {
 public:
  __device__ __forceinline__ Outputs(const ProductArgs& args, const UnitPlace& place)
      : args_(args), part_(args.parts[place.part]), first_(place.row) {}

  // What add_residual adds to.
  __device__ __forceinline__ float read(int r, int token) const {
    return inside(r) ? args_.out_float[at(r, token)] : 0.0f;
  }
  __device__ __forceinline__ void write_sum(int r, int token, float old, float y) const {
    if (inside(r)) args_.out_float[at(r, token)] = old + args_.residual_scale * with_bias(r, y);
  }
  // For store_float and store_bfloat16.
  __device__ __forceinline__ void write(int r, int token, float y) const {
    if (!inside(r)) return;
    if (args_.epilogue == Epilogue::store_float) {
      args_.out_float[at(r, token)] = with_bias(r, y);
    } else {
      args_.out_bfloat16[at(r, token)] = __float2bfloat16_rn(with_bias(r, y));
    }
  }

 private:
  __device__ __forceinline__ bool inside(int r) const {
    return first_ + r >= part_.begin && first_ + r < part_.end;
  }
  __device__ __forceinline__ float with_bias(int r, float y) const {
    return part_.bias == nullptr ? y : y + part_.bias[first_ + r];
  }
  __device__ __forceinline__ std::int64_t at(int r, int token) const {
    return token * args_.out_stride + part_.out_column + (first_ + r - part_.begin);
  }

  const ProductArgs& args_;
  const ProductPart& part_;
  int first_;
};

// Stores row `r` of a gated unit for a token.
__device__ __forceinline__ void store_gated(const ProductArgs& args, const UnitPlace& place, int r,
                                            int token, float gate, float up) {
  const int row = place.row + r;
  if (row >= args.parts[0].end) return;
  if (args.parts[0].bias != nullptr) gate += args.parts[0].bias[row];
  if (args.parts[1].bias != nullptr) up += args.parts[1].bias[row];
  args.out_bfloat16[token * args.out_stride + row] =
      __float2bfloat16_rn(gate_value(args.epilogue, gate) * up);
}

}  // namespace quire::cuda
