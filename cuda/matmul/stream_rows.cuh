#pragma once

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"

namespace quire::cuda {

// Four rows of a unit, which one lane stores for some tokens.
class StreamRows {
 public:
  __device__ __forceinline__ StreamRows(const ProductArgs& args, int unit, int lane)
      : args_(args),
        adds_(args.epilogue == Epilogue::add_residual),
        floats_(adds_ || args.epilogue == Epilogue::store_float) {
    const UnitPlace place(args, unit, args.unit_rows);
    const int half_rows = args.unit_rows / 2;
    const int within = (args.gated ? lane % 16 : lane) * 4;
    const ProductPart& part = args.parts[place.part];
    const int row = place.row + within;
    place_ = within < half_rows ? within : within - half_rows + kStreamUnitRows / 2;
    any_ = within < (args.gated ? half_rows : args.unit_rows);
    column_ = part.out_column + row - part.begin;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      inside_[i] = any_ && row + i >= part.begin && row + i < part.end;
      bias_[0][i] = bias_of(part, row + i, inside_[i]);
      bias_[1][i] = bias_of(args.parts[1], row + i, inside_[i] && args.gated);
    }
    const auto address = floats_ ? reinterpret_cast<std::uintptr_t>(args.out_float + column_) / 2
                                 : reinterpret_cast<std::uintptr_t>(args.out_bfloat16 + column_);
    whole_ = inside_[0] && inside_[3] && address % 8 == 0 && args.out_stride % 4 == 0;
  }
  // Whether the lane has any.
  __device__ __forceinline__ bool any() const {
    return any_;
  }
  // The first one's place in the unit as wgmma has it.
  __device__ __forceinline__ int place() const {
    return place_;
  }

  // What the sums will be added to.
  __device__ __forceinline__ float4 read(int token) const {
    float4 old{};
    if (!adds_) return old;
    const float* from = args_.out_float + at(token);
    if (whole_) return __ldcg(reinterpret_cast<const float4*>(from));
    if (inside_[0]) old.x = from[0];
    if (inside_[1]) old.y = from[1];
    if (inside_[2]) old.z = from[2];
    if (inside_[3]) old.w = from[3];
    return old;
  }
  // `up`: of gated products.
  __device__ __forceinline__ void write(int token, const float4& sums, const float4& up,
                                        const float4& old) const {
    float v[4] = {sums.x + bias_[0][0], sums.y + bias_[0][1], sums.z + bias_[0][2],
                  sums.w + bias_[0][3]};
    if (args_.gated) {
      const float w[4] = {up.x + bias_[1][0], up.y + bias_[1][1], up.z + bias_[1][2],
                          up.w + bias_[1][3]};
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = gate_value(args_.epilogue, v[i]) * w[i];
    }
    if (!floats_) {
      const uint2 packed = {pack2(v[0], v[1]), pack2(v[2], v[3])};
      __nv_bfloat16* to = args_.out_bfloat16 + at(token);
      if (whole_) {
        __stcg(reinterpret_cast<uint2*>(to), packed);
        return;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (inside_[i]) to[i] = __float2bfloat16_rn(v[i]);
      }
      return;
    }
    const float scale = adds_ ? args_.residual_scale : 1.0f;
    v[0] = old.x + scale * v[0], v[1] = old.y + scale * v[1];
    v[2] = old.z + scale * v[2], v[3] = old.w + scale * v[3];
    float* to = args_.out_float + at(token);
    if (whole_) {
      __stcg(reinterpret_cast<float4*>(to), make_float4(v[0], v[1], v[2], v[3]));
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (inside_[i]) to[i] = v[i];
    }
  }

 private:
  static __device__ __forceinline__ float bias_of(const ProductPart& part, int row, bool inside) {
    return inside && part.bias != nullptr ? part.bias[row] : 0.0f;
  }
  __device__ __forceinline__ std::int64_t at(int token) const {
    return token * args_.out_stride + column_;
  }

  const ProductArgs& args_;
  const bool adds_, floats_;
  int place_;
  bool any_, inside_[4];
  bool whole_;           // one access for all four
  std::int64_t column_;  // of the output
  float bias_[2][4];
};

}  // namespace quire::cuda
