#pragma once

#include "matmul/epilogue.cuh"
#include "matmul/instructions.cuh"
#include "matmul/product_args.h"

namespace quire::cuda {

// Four rows of a unit, which one lane stores for a token.
class StreamRows {
 public:
  __device__ __forceinline__ StreamRows(const ProductArgs& args, int unit, int token, int lane,
                                        bool any)
      : args_(args),
        adds_(args.epilogue == Epilogue::add_residual),
        floats_(adds_ || args.epilogue == Epilogue::store_float) {
    const UnitPlace place(args, unit, args.unit_rows);
    const int half_rows = args.unit_rows / 2;
    const int within = (args.gated ? lane % 16 : lane) * 4;
    part_ = place.part;
    row_ = place.row + within;
    place_ = within < half_rows ? within : within - half_rows + kStreamUnitRows / 2;
    any_ = any && within < (args.gated ? half_rows : args.unit_rows);
    const ProductPart& part = args.parts[part_];
    at_ = token * args.out_stride + part.out_column + row_ - part.begin;
#pragma unroll
    for (int i = 0; i < 4; ++i) inside_[i] = any_ && row_ + i >= part.begin && row_ + i < part.end;
    const bool aligned =
        floats_ ? reinterpret_cast<std::uintptr_t>(args.out_float + at_) % sizeof(float4) == 0
                : reinterpret_cast<std::uintptr_t>(args.out_bfloat16 + at_) % sizeof(uint2) == 0;
    whole_ = inside_[0] && inside_[3] && aligned;
  }
  __device__ __forceinline__ bool any() const {
    return any_;
  }
  // The first one's place in the unit as wgmma has it.
  __device__ __forceinline__ int place() const {
    return place_;
  }

  // What the sums will be added to.
  __device__ __forceinline__ float4 read() const {
    float4 old{};
    if (!adds_) return old;
    const float* from = args_.out_float + at_;
    if (whole_) return *reinterpret_cast<const float4*>(from);
    if (inside_[0]) old.x = from[0];
    if (inside_[1]) old.y = from[1];
    if (inside_[2]) old.z = from[2];
    if (inside_[3]) old.w = from[3];
    return old;
  }
  // `up`: of gated products.
  __device__ __forceinline__ void write(const float4& sums, const float4& up,
                                        const float4& old) const {
    float v[4] = {sums.x, sums.y, sums.z, sums.w};
    add_bias(part_, v);
    if (args_.gated) {
      float w[4] = {up.x, up.y, up.z, up.w};
      add_bias(1, w);
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = gate_value(args_.epilogue, v[i]) * w[i];
    }
    if (!floats_) {
      const uint2 packed = {pack2(v[0], v[1]), pack2(v[2], v[3])};
      __nv_bfloat16* to = args_.out_bfloat16 + at_;
      if (whole_) {
        *reinterpret_cast<uint2*>(to) = packed;
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
    float* to = args_.out_float + at_;
    if (whole_) {
      *reinterpret_cast<float4*>(to) = {v[0], v[1], v[2], v[3]};
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (inside_[i]) to[i] = v[i];
    }
  }

 private:
  __device__ __forceinline__ void add_bias(int part, float (&v)[4]) const {
    const float* bias = args_.parts[part].bias;
    if (bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (inside_[i]) v[i] += bias[row_ + i];
    }
  }

  const ProductArgs& args_;
  const bool adds_, floats_;
  int part_, row_, place_;
  bool any_, inside_[4];
  bool whole_;  // one access for all four
  std::int64_t at_;
};

}  // namespace quire::cuda
