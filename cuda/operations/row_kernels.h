#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "base/launch.h"
#include "device/model_ops.h"

namespace quire::cuda {

// Kernels over rows; a row's bits depend on that row alone. All pointers are device memory.

// out[i] = norm(in[rows ? rows[i] : i]) in bf16; a null weight only rounds. in [..][width].
Status norm_rows(const Launch& launch, const float* in, const std::int32_t* rows, int count,
                 int width, const RmsNorm& norm, __nv_bfloat16* out);

// hidden += scale * norm(x); both [rows][width]. A null weight adds x as it is.
Status add_rows(const Launch& launch, const float* x, int rows, int width, const RmsNorm& norm,
                float scale, float* hidden);

// cosine[row][i] = magnitude * cos(position * frequency[i]), sine likewise.
Status rotation_rows(const Launch& launch, const std::int32_t* positions,
                     const std::int32_t* choices, int rows, const RotationArgs& table);

// x = cap * tanh(scale * x / cap), or scale * x if cap <= 0; `count` columns of rows `stride`
// apart.
Status scale_logits(const Launch& launch, float* x, int rows, std::int64_t count,
                    std::int64_t stride, float scale, float cap);

// out = activation(gate) * up, in bf16: gate_up [rows][2 * ff] has both, out is [rows][ff] or, with
// `places`, row i goes to out row places[i].
Status activate_rows(const Launch& launch, Activation activation, const float* gate_up, int rows,
                     int ff, const std::int32_t* places, __nv_bfloat16* out);

// Whether the device can run the kernels of this build.
Status check_kernels();

}  // namespace quire::cuda
