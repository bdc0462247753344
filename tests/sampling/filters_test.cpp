#include "sampling/filters.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "catch.h"
#include "sampling/distribution.h"

namespace quire::sampling {
namespace {

// The contract of SamplingParams, literally: sort everything, in float64.
std::vector<std::int32_t> kept_by_sorting(const std::vector<float>& logits,
                                          const DrawParams& params) {
  std::vector<Candidate> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) order.emplace_back(logits[i], static_cast<std::int32_t>(i));
  }
  std::sort(order.begin(), order.end(), ranks_before);
  std::vector<double> p;
  for (const Candidate& c : order) {
    p.push_back(std::exp((double{c.first} - order[0].first) / params.temperature));
  }
  std::size_t n = p.size();
  while (n > 1 && p[n - 1] < params.min_p) --n;
  if (params.top_k > 0) n = std::min(n, static_cast<std::size_t>(params.top_k));
  if (params.top_p < 1) {
    double total = 0, before = 0;
    for (std::size_t i = 0; i < n; ++i) total += p[i];
    std::size_t i = 0;
    while (i < n && (i == 0 || before < params.top_p * total)) before += p[i++];
    n = i;
  }
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(order[i].second);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::int32_t> kept_ids(const std::vector<float>& logits, const DrawParams& params) {
  DrawArgs args{.logits = logits.data(), .vocabulary = static_cast<int>(logits.size())};
  args.params = params;
  DrawScratch scratch;
  const auto kept = distribution(args, scratch);
  REQUIRE(kept);
  std::vector<std::int32_t> ids;
  for (const auto& [id, p] : *kept) ids.push_back(id);
  return ids;
}

// Logits on a grid of 1/8, so that many are equal and every cut meets ties; the probabilities at a
// top_p cut are far enough from it for float weights because the sizes stay small.
TEST_CASE("cuts equal those of a full sort, ties by lower id") {
  const unsigned seed = 20240611;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const int size = std::uniform_int_distribution<int>(1, 3000)(random);
    std::vector<float> logits(size);
    const int spread = std::uniform_int_distribution<int>(0, 100)(random);
    for (float& x : logits) x = std::uniform_int_distribution<int>(-spread, spread)(random) / 8.0f;
    if (round % 5 == 0) logits[random() % size] = -INFINITY;
    DrawParams params;
    params.temperature = 0.5f + static_cast<float>(random() % 20) / 10;
    const auto one_of = [&](auto a, auto b, auto c, auto d) {
      const decltype(a) all[] = {a, b, c, d};
      return all[random() % 4];
    };
    params.top_k = one_of(0, 1, 40, 700);
    params.top_p = one_of(1.0f, 0.1f, 0.513f, 0.9713f);
    params.min_p = one_of(0.0f, 0.0f, 0.051f, 1.0f);
    if (size == 1) logits[0] = 1;
    CAPTURE(round, size, spread, params.temperature, params.top_k, params.top_p, params.min_p);
    const auto expected = kept_by_sorting(logits, params);
    const auto got = kept_ids(logits, params);
    // Tokens at equal probability: a running sum in another order may stop one token beside.
    if (params.top_p == 1) {
      REQUIRE(got == expected);
    } else {
      REQUIRE(std::abs(static_cast<long>(got.size()) - static_cast<long>(expected.size())) <= 1);
      if (got.size() == expected.size()) REQUIRE(got == expected);
    }
  }
}

TEST_CASE("a nucleus wider than the candidate window is found") {
  std::vector<float> logits(50'000, 0.0f);
  DrawParams params;
  params.top_p = 0.5f;
  const auto kept = kept_ids(logits, params);
  REQUIRE(kept.size() == 25'000);
  CHECK(kept.front() == 0);
  CHECK(kept.back() == 24'999);
}

TEST_CASE("the nucleus of a vocabulary of equal logits keeps the lower ids") {
  DrawParams params;
  params.top_k = 3;
  CHECK(kept_ids(std::vector<float>(1000, 2.5f), params) == std::vector<std::int32_t>{0, 1, 2});
}

}  // namespace
}  // namespace quire::sampling
