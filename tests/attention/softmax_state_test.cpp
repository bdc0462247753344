#include "attention/softmax_state.h"

#include <cmath>
#include <random>
#include <vector>

#include "catch.h"

namespace quire::attention {
namespace {

SoftmaxState state_of(const std::vector<float>& scores) {
  SoftmaxState state;
  for (const float score : scores) state.maximum = std::fmax(state.maximum, score);
  for (const float score : scores) state.sum += std::exp(score - state.maximum);
  return state;
}

TEST_CASE("merging with an empty state keeps the other side's bits") {
  const SoftmaxState some{3.25f, 1.7f};
  SoftmaxState left = some;
  const MergeFactors keep = merge(left, SoftmaxState{});
  CHECK((left.maximum == some.maximum && left.sum == some.sum));
  CHECK((keep.left == 1 && keep.right == 0));
  SoftmaxState empty;
  const MergeFactors take = merge(empty, some);
  CHECK((empty.maximum == some.maximum && empty.sum == some.sum));
  CHECK((take.left == 0 && take.right == 1));
  SoftmaxState both;
  merge(both, SoftmaxState{});
  CHECK(both.empty());
}

TEST_CASE("merged states are the softmax of all scores, in either order of size") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 20);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> a(1 + random() % 5), b(1 + random() % 5);
    for (float& v : a) v = normal(random);
    for (float& v : b) v = normal(random);
    std::vector<float> all = a;
    all.insert(all.end(), b.begin(), b.end());
    SoftmaxState merged = state_of(a);
    const SoftmaxState other = state_of(b), whole = state_of(all);
    const SoftmaxState before = merged;
    const MergeFactors factors = merge(merged, other);
    CHECK(merged.maximum == whole.maximum);
    CHECK(merged.sum == Approx(whole.sum).epsilon(1e-5));
    CHECK(factors.left == std::exp(before.maximum - whole.maximum));
    CHECK(factors.right == std::exp(other.maximum - whole.maximum));
  }
}

TEST_CASE("a sink takes its share of the softmax and cannot overflow it") {
  const SoftmaxState state{2.0f, 3.0f};
  CHECK(finish(state, nullptr) == 1 / 3.0f);
  for (const float sink : {-1e30f, -5.0f, 2.0f, 4.0f, 200.0f}) {
    const double exact = 1 / (3 + std::exp(static_cast<double>(sink) - 2));
    CHECK(finish(state, &sink) == Approx(exact).epsilon(1e-6).margin(1e-37));
  }
  const float sink = 1;
  CHECK(finish(SoftmaxState{}, nullptr) == 0);
  CHECK(finish(SoftmaxState{}, &sink) == 0);
}

}  // namespace
}  // namespace quire::attention
