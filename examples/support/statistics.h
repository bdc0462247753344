#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace examples {

// The smallest of `values` that at least a share `p` of them do not exceed; 0 of none.
inline double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(p * static_cast<double>(values.size()));
  const std::size_t index = rank < 1 ? 0 : static_cast<std::size_t>(rank) - 1;
  return values[std::min(index, values.size() - 1)];
}

}  // namespace examples
