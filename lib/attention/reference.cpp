#include "attention/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace quire::attention {

std::vector<double> reference_attention(const ReferenceQuery& args) {
  const std::size_t size = args.query.size();
  const int first = args.window > 0 ? std::max(0, args.position - args.window + 1) : 0;
  std::vector<double> scores;
  for (int key = first; key <= args.position; ++key) {
    double score = 0;
    for (std::size_t i = 0; i < size; ++i) score += args.query[i] * args.keys[key * size + i];
    score *= args.scale;
    scores.push_back(args.soft_cap > 0 ? args.soft_cap * std::tanh(score / args.soft_cap) : score);
  }
  double maximum = *std::max_element(scores.begin(), scores.end());
  if (args.sink != nullptr) maximum = std::max(maximum, *args.sink);
  double sum = args.sink != nullptr ? std::exp(*args.sink - maximum) : 0;
  std::vector<double> output(size);
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const double weight = std::exp(scores[key] - maximum);
    sum += weight;
    for (std::size_t i = 0; i < size; ++i)
      output[i] += weight * args.values[(first + key) * size + i];
  }
  for (double& value : output) value /= sum;
  return output;
}

}  // namespace quire::attention
