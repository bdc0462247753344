#pragma once

#include <cfloat>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sampling/exponential.h"

namespace quire::sampling {

using Candidate = std::pair<float, std::int32_t>;  // {logit, token id}

// The order of all cuts: more likely first, ties by lower id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// Everything that ranks before or at one token, so that any cut of the distribution is one pair.
struct Cut {
  float value = -FLT_MAX;
  std::int32_t id = std::numeric_limits<std::int32_t>::max();

  bool keeps(float logit, std::int32_t token) const {
    return logit > value || (logit == value && token <= id);
  }
};

// Unnormalised probability of a logit: 1 for the largest.
struct Weight {
  float max = 0;
  float inverse_temperature = 1;

  float operator()(float logit) const { return exponential((logit - max) * inverse_temperature); }
};

// Logits in blocks of 64 with the largest of each, so that few of them are looked at twice. Logits
// that are not finite count as -infinity: they are in no maximum, sum or candidate.
class LogitBlocks {
 public:
  static constexpr int kWidth = 64;

  // Computes the maxima into `maxima`; both arrays must outlive this object.
  LogitBlocks(std::span<const float> logits, std::vector<float>& maxima);

  float max() const { return max_; }  // -infinity if no logit is finite
  std::int32_t argmax() const;        // lowest id of the largest; needs a finite one
  int count() const { return static_cast<int>(maxima_.size()); }
  std::span<const float> logits() const { return logits_; }

  // All tokens >= floor that can be among the `most` best: at least as many as are there, in order
  // of id.
  void gather(std::size_t most, float floor, std::vector<Candidate>& to) const;

  // Weights of the kept tokens summed in a fixed order, for each block; returns the sum of all.
  double weigh(const Weight& weight, const Cut& cut, std::vector<double>& block_sums) const;
  // The token at which the running sum of kept weights, by id, passes `target`.
  std::int32_t pick(double target, const Weight& weight, const Cut& cut,
                    std::span<const double> block_sums) const;

 private:
  std::span<const float> block(int b) const;

  std::span<const float> logits_;
  std::span<const float> maxima_;
  float max_ = 0;
};

}  // namespace quire::sampling
