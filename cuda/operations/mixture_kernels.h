#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "base/launch.h"

namespace quire::cuda {

// A place is row * top_k + slot. All pointers are device memory.

// The top_k best experts of each row by logit (ties by lower index), and their weights: a softmax
// over the chosen logits (renormalise) or over all. logits [rows][experts]; out [rows][top_k].
Status choose_experts(const Launch& launch, const float* logits, int rows, int experts, int top_k,
                      bool renormalise, std::int32_t* chosen, float* weights);

// out[i] = in[places[i] / divisor], rows of `width`.
Status gather_places(const Launch& launch, const __nv_bfloat16* in, const std::int32_t* places,
                     int count, int divisor, int width, __nv_bfloat16* out);

// sums[places[i] / top_k] += weights[places[i]] * in[i]; no row is there twice.
Status add_places(const Launch& launch, const float* in, const std::int32_t* places,
                  const float* weights, int count, int top_k, int width, float* sums);

}  // namespace quire::cuda
