#pragma once

#include "cpu/attention_kernels_impl.h"
#include "cpu/kv_direct_impl.h"
#include "cpu/kv_kernels_impl.h"
#include "cpu/row_kernels.h"
#include "cpu/row_kernels_impl.h"

namespace quire::cpu {

// The table of one instruction set's lanes.
template <class V>
constexpr RowKernels row_table() {
  return {
      .sum_of_squares = sum_of_squares<V>,
      .normalise = normalise<V>,
      .scale = scale<V>,
      .add_scaled = add_scaled<V>,
      .add_normed = add_normed<V>,
      .rotate = rotate<V>,
      .silu = silu<V>,
      .gelu_tanh = gelu_tanh_times<V>,
      .swiglu_clamped = swiglu_clamped<V>,
      .soft_cap = soft_cap<V>,
      .write_key_value = write_key_value<V>,
      .read_keys = read_keys<V>,
      .read_values = read_values<V>,
      .direct_scores = direct_scores<V>,
      .direct_accumulate = direct_accumulate<V>,
      .attention = {.scores = scores<V>,
                    .softmax = softmax<V>,
                    .accumulate = accumulate<V>,
                    .blend = blend<V>},
  };
}

}  // namespace quire::cpu
