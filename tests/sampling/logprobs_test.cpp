#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "catch.h"

namespace quire {
namespace {

std::vector<float> random_logits(int size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(size);
  for (float& x : logits) x = normal(random);
  return logits;
}

double exact_normaliser(const std::vector<float>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum);
}

TEST_CASE("log-probabilities are the softmax of the raw logits whatever the parameters") {
  const auto logits = random_logits(151'936, 7);
  const double normaliser = exact_normaliser(logits);
  DrawArgs args{.logits = logits.data(), .vocabulary = static_cast<int>(logits.size())};
  args.params.temperature = 0.3f;
  args.params.top_k = 20;
  const std::pair<std::int32_t, float> bias[] = {{5, 100.0f}};
  args.params.bias = bias;
  args.seed = 11;
  args.logprobs = 5;
  DrawScratch scratch;
  const auto result = draw_token(args, scratch);
  REQUIRE(result.status);
  CHECK(result.token == 5);
  CHECK(std::abs(result.logprob - (logits[5] - normaliser)) < 2e-6);
  REQUIRE(result.top.size() == 5);
  CHECK(std::is_sorted(result.top.begin(), result.top.end(),
                       [](const auto& a, const auto& b) { return a.second > b.second; }));
  for (const auto& [id, logprob] : result.top) {
    CHECK(std::abs(logprob - (logits[id] - normaliser)) < 2e-6);
  }
}

// Public case L#7203: temperature 0 and five alternatives.
TEST_CASE("at temperature 0 the chosen token leads the most likely ones") {
  const auto logits = random_logits(1000, 3);
  DrawArgs args{.logits = logits.data(), .vocabulary = 1000};
  args.params.temperature = 0;
  args.logprobs = 5;
  DrawScratch scratch;
  const auto result = draw_token(args, scratch);
  REQUIRE(result.top.size() == 5);
  CHECK(result.top[0].first == result.token);
  CHECK(result.top[0].second == result.logprob);
}

TEST_CASE("the whole vocabulary can be asked for, impossible tokens last") {
  std::vector<float> logits = random_logits(500, 9);
  logits[17] = NAN;
  logits[3] = -INFINITY;
  DrawArgs args{.logits = logits.data(), .vocabulary = 500};
  args.logprobs = 10'000;
  args.draw = false;
  args.given = 17;
  DrawScratch scratch;
  const auto result = draw_token(args, scratch);
  REQUIRE(result.status);
  CHECK(result.token == 17);
  CHECK(result.logprob == -INFINITY);
  REQUIRE(result.top.size() == 500);
  CHECK(result.top[498] == std::pair<std::int32_t, float>{3, -INFINITY});
  CHECK(result.top[499] == std::pair<std::int32_t, float>{17, -INFINITY});
  double sum = 0;
  for (const auto& entry : result.top) sum += std::exp(double{entry.second});
  CHECK(std::abs(sum - 1) < 1e-6);
}

TEST_CASE("logprobs 0 reports the chosen token alone, and none nothing") {
  const auto logits = random_logits(100, 4);
  DrawArgs args{.logits = logits.data(), .vocabulary = 100};
  args.logprobs = 0;
  DrawScratch scratch;
  const auto result = draw_token(args, scratch);
  CHECK(result.top.empty());
  CHECK(std::abs(result.logprob - (logits[result.token] - exact_normaliser(logits))) < 2e-6);
}

TEST_CASE("equal log-probabilities are listed by lower id") {
  const std::vector<float> logits(300, 1.5f);
  DrawArgs args{.logits = logits.data(), .vocabulary = 300};
  args.logprobs = 3;
  DrawScratch scratch;
  const auto top = draw_token(args, scratch).top;
  REQUIRE(top.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(top[i].first == i);
    CHECK(std::abs(top[i].second + std::log(300.0)) < 1e-6);
  }
}

}  // namespace
}  // namespace quire
