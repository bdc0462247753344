#pragma once

#include <span>
#include <vector>

namespace quire::attention {

// Attention of one query over contiguous keys, in float64 and in the plainest way: the definition
// that the kernels are tested against.
struct ReferenceQuery {
  std::span<const double> query;   // [head_size]
  std::span<const double> keys;    // [count][head_size]
  std::span<const double> values;  // [count][head_size]
  int position = 0;                // sees keys 0 ... position
  int window = 0;                  // of them those at distance < window; 0: all
  double scale = 1;
  double soft_cap = 0;           // c * tanh(score / c) if > 0
  const double* sink = nullptr;  // a logit without a value, or null
};

std::vector<double> reference_attention(const ReferenceQuery& args);

}  // namespace quire::attention
