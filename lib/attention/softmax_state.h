#pragma once

#include <cmath>
#include <limits>

namespace quire::attention {

// Running softmax of one query row: the score that the exponents are taken from (the largest so
// far, or one near it) and the sum of exp(score - maximum). The weighted sum of values that goes
// with it is kept beside, scaled alike. Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018. Processors and GPUs use the same type; a GPU gives its own exponential, of base 2
// where its scores are in that base.
struct SoftmaxState {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;

  constexpr bool empty() const { return maximum == -std::numeric_limits<float>::infinity(); }
};

// Factors of the two weighted sums in a merge: values = left * values + right * other values.
struct MergeFactors {
  float left = 1;
  float right = 0;
};

// Folds `other`, which comes after in key order, into `state`. Merging with an empty state on
// either side keeps the other side's bits.
template <class Exponential>
constexpr MergeFactors merge(SoftmaxState& state, const SoftmaxState& other,
                             Exponential exponential) {
  if (other.empty()) return {1, 0};
  if (state.empty()) {
    state = other;
    return {0, 1};
  }
  const float maximum = state.maximum > other.maximum ? state.maximum : other.maximum;
  const MergeFactors factors{exponential(state.maximum - maximum),
                             exponential(other.maximum - maximum)};
  state.sum = std::fma(state.sum, factors.left, other.sum * factors.right);
  state.maximum = maximum;
  return factors;
}

// What the weighted sum of values is multiplied with at the end. `sink` is a logit that takes part
// in the softmax but has no value; null if there is none.
template <class Exponential>
constexpr float finish(const SoftmaxState& state, const float* sink, Exponential exponential) {
  if (state.empty()) return 0;
  if (sink == nullptr) return 1 / state.sum;
  const float maximum = state.maximum > *sink ? state.maximum : *sink;
  const float factor = exponential(state.maximum - maximum);
  return factor / std::fma(state.sum, factor, exponential(*sink - maximum));
}

inline MergeFactors merge(SoftmaxState& state, const SoftmaxState& other) {
  return merge(state, other, [](float x) { return std::exp(x); });
}

inline float finish(const SoftmaxState& state, const float* sink) {
  return finish(state, sink, [](float x) { return std::exp(x); });
}

}  // namespace quire::attention
