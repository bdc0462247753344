#pragma once

#include <cstdint>

#include "matmul/product_args.h"

namespace quire::cuda {

// The part of a unit, and the panels that it is made of.
struct UnitPlace {
  int part = 0;
  int row = 0;  // of the part's matrix, of the unit's first row

  __device__ __forceinline__ UnitPlace(const ProductArgs& args, int unit) {
    if (args.gated) {
      row = unit * kPanelRows;
      return;
    }
    while (part + 1 < args.part_count && unit >= args.parts[part + 1].first_unit) ++part;
    row = (unit - args.parts[part].first_unit + args.parts[part].skipped_units) * kUnitRows;
  }
  __device__ __forceinline__ const std::byte* panel(const ProductArgs& args, int which) const {
    const std::size_t index = static_cast<std::size_t>(row / kPanelRows) + (args.gated ? 0 : which);
    return args.parts[args.gated ? which : part].weights + index * args.panel_stride;
  }
};

__device__ __forceinline__ float gate_value(Epilogue epilogue, float x) {
  if (epilogue == Epilogue::gated_silu) return x / (1.0f + __expf(-x));
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}

// Stores row `r` (0 ... 31) of a unit for a token.
__device__ __forceinline__ void store_sum(const ProductArgs& args, const UnitPlace& place, int r,
                                          int token, float y) {
  const ProductPart& part = args.parts[place.part];
  const int row = place.row + r;
  if (row < part.begin || row >= part.end) return;
  if (part.bias != nullptr) y += part.bias[row];
  const std::int64_t at = token * args.out_stride + part.out_column + (row - part.begin);
  switch (args.epilogue) {
    case Epilogue::store_float:
      args.out_float[at] = y;
      break;
    case Epilogue::store_bfloat16:
      args.out_bfloat16[at] = __float2bfloat16_rn(y);
      break;
    default:
      args.out_float[at] += args.residual_scale * y;
      break;
  }
}

// Stores row `r` (0 ... 15) of a gated unit for a token.
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
