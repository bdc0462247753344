#include "sampling/draw.h"

#include <cfloat>
#include <cmath>
#include <map>
#include <numeric>

#include "catch.h"
#include "sampling/distribution.h"

namespace quire {
namespace {

DrawArgs args_for(const std::vector<float>& logits) {
  DrawArgs args;
  args.logits = logits.data();
  args.vocabulary = static_cast<int>(logits.size());
  return args;
}

std::int32_t drawn(const DrawArgs& args) {
  DrawScratch scratch;
  const auto result = draw_token(args, scratch);
  CAPTURE(result.status.message());
  REQUIRE(result.status);
  return result.token;
}

// Pearson's statistic of `draws` draws, one position each, against the distribution.
double chi_square(DrawArgs args, int draws, int& freedom) {
  DrawScratch scratch;
  const auto kept = sampling::distribution(args, scratch);
  REQUIRE(kept);
  std::map<std::int32_t, int> counts;
  bool all_ok = true;
  for (args.position = 0; args.position < draws; ++args.position) {
    const auto result = draw_token(args, scratch);
    all_ok = all_ok && result.status.ok();
    ++counts[result.token];
  }
  REQUIRE(all_ok);
  double statistic = 0;
  int seen = 0;
  for (const auto& [id, p] : *kept) {
    const double expected = p * draws;
    REQUIRE(expected >= 5);  // else the statistic means nothing
    statistic += (counts[id] - expected) * (counts[id] - expected) / expected;
    seen += counts[id];
  }
  REQUIRE(seen == draws);  // nothing outside the kept tokens
  freedom = static_cast<int>(kept->size()) - 1;
  return statistic;
}

// Mean + 4 standard deviations of the chi-square distribution.
double limit(int freedom) {
  return freedom + 4 * std::sqrt(2.0 * freedom);
}

TEST_CASE("draws follow the distribution") {
  std::vector<float> logits(200);
  for (int i = 0; i < 200; ++i) logits[i] = std::sin(static_cast<float>(i)) * 1.5f;
  auto args = args_for(logits);
  int freedom = 0;
  for (const std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    args.seed = seed;
    args.params = {};
    const double all = chi_square(args, 20'000, freedom);
    CHECK(all < limit(freedom));
    args.params.temperature = 0.7f;
    args.params.top_k = 60;
    args.params.top_p = 0.8f;
    const double cut = chi_square(args, 20'000, freedom);
    CHECK(freedom >= 20);
    CHECK(freedom < 60);
    CHECK(cut < limit(freedom));
  }
}

TEST_CASE("a draw depends on seed, choice and position only") {
  std::vector<float> logits(5000);
  for (int i = 0; i < 5000; ++i) logits[i] = std::cos(static_cast<float>(i));
  auto args = args_for(logits);
  args.seed = 42;
  std::vector<std::int32_t> first, again, other_choice, other_seed;
  const auto ten = [&](std::vector<std::int32_t>& to) {
    for (args.position = 0; args.position < 10; ++args.position) to.push_back(drawn(args));
  };
  ten(first);
  ten(again);
  args.choice = 1;
  ten(other_choice);
  args.choice = 0;
  args.seed = 43;
  ten(other_seed);
  CHECK(first == again);
  CHECK(first != other_choice);
  CHECK(first != other_seed);
}

// V#51226: a seeded request beside an unseeded one, here through shared scratch memory.
TEST_CASE("draws of other requests leave a seeded one unchanged") {
  std::vector<float> logits(700), other(9000);
  for (int i = 0; i < 700; ++i) logits[i] = std::sin(static_cast<float>(i * i));
  for (int i = 0; i < 9000; ++i) other[i] = std::sin(static_cast<float>(i)) * 3;
  const std::vector<std::int32_t> output = {5, 5, 9};
  auto args = args_for(logits);
  args.seed = 42;
  args.output = output;
  args.params.frequency_penalty = 0.4f;
  args.params.top_p = 0.9f;
  const std::int32_t alone = drawn(args);
  auto neighbour = args_for(other);
  neighbour.params.repetition_penalty = 1.3f;
  neighbour.prompt = output;
  neighbour.output = output;
  DrawScratch scratch;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    neighbour.seed = seed;
    REQUIRE(draw_token(neighbour, scratch).status);
    CHECK(draw_token(args, scratch).token == alone);
  }
}

TEST_CASE("greedy takes the lowest id of equal logits") {
  std::vector<float> logits(1000, 0.0f);
  logits[777] = logits[311] = logits[312] = 4.5f;
  auto args = args_for(logits);
  args.params.temperature = 0;
  CHECK(drawn(args) == 311);
}

// V#1623, V#2937: a temperature close to 0.
TEST_CASE("temperature 1e-4 is finite and equals the argmax") {
  std::vector<float> logits(100, -3.0f);
  logits[40] = 8.0f;
  logits[41] = 7.5f;
  auto args = args_for(logits);
  args.params.temperature = 1e-4f;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    args.seed = seed;
    CHECK(drawn(args) == 40);
  }
}

TEST_CASE("logits near the ends of float32 neither overflow nor vanish") {
  std::vector<float> logits = {-FLT_MAX, FLT_MAX, 0.0f, FLT_MAX};
  auto args = args_for(logits);
  for (const float temperature : {1e-4f, 1.0f, 1e30f}) {
    args.params.temperature = temperature;
    const std::int32_t token = drawn(args);
    CHECK((token == 1 || token == 3));
  }
  const std::pair<std::int32_t, float> bias[] = {{1, FLT_MAX}};
  args.params.temperature = 0;
  args.params.bias = bias;
  CHECK(drawn(args) == 1);
}

// S#28153: refused with the request; here the last line of defence.
TEST_CASE("a temperature that is no number is an error, not a draw") {
  const std::vector<float> logits = {1, 2};
  auto args = args_for(logits);
  DrawScratch scratch;
  for (const float temperature : {NAN, INFINITY, -1.0f}) {
    args.params.temperature = temperature;
    CHECK(draw_token(args, scratch).status.code() == StatusCode::internal);
  }
}

// L#13405, L#26651.
TEST_CASE("without a finite logit the draw fails and says so") {
  DrawScratch scratch;
  for (const float all : {NAN, -INFINITY, INFINITY}) {
    const std::vector<float> logits(70, all);
    for (const float temperature : {0.0f, 1.0f}) {
      auto args = args_for(logits);
      args.params.temperature = temperature;
      args.logprobs = 2;
      const auto result = draw_token(args, scratch);
      CHECK(result.status.code() == StatusCode::internal);
      CHECK(result.status.message() == (std::isnan(all)
                                            ? "none of the 70 logits is finite (70 are NaN)"
                                            : "none of the 70 logits is finite (0 are NaN)"));
    }
  }
}

// V#22180.
TEST_CASE("NaN and infinite logits are never chosen and make nothing else NaN") {
  std::vector<float> logits(130, NAN);
  logits[5] = -INFINITY;
  logits[6] = INFINITY;
  logits[100] = -2.0f;
  logits[129] = -2.5f;
  auto args = args_for(logits);
  args.logprobs = 2;
  DrawScratch scratch;
  for (const float temperature : {0.0f, 1.0f, 5.0f}) {
    args.params.temperature = temperature;
    for (args.position = 0; args.position < 30; ++args.position) {
      const auto result = draw_token(args, scratch);
      REQUIRE(result.status);
      CHECK((result.token == 100 || result.token == 129));
      CHECK(std::isfinite(result.logprob));
      REQUIRE(result.top.size() == 2);
      CHECK(result.top[0].first == 100);
      CHECK(std::abs(result.top[0].second + std::log(1 + std::exp(-0.5))) < 1e-6);
    }
  }
}

// V#16529, V#54195: ids outside the vocabulary are refused with the request; here they touch
// nothing.
TEST_CASE("ids outside the vocabulary change no logit") {
  const std::vector<float> logits = {1, 3, 2, 100, 100};  // a vocabulary of 3 in longer rows
  const std::pair<std::int32_t, float> bias[] = {{191222, 50.0f}, {-1, 50.0f}, {3, 50.0f}};
  const std::int32_t strange[] = {-7, 3, 191222};
  auto args = args_for(logits);
  args.vocabulary = 3;
  args.params.temperature = 0;
  args.params.bias = bias;
  args.params.banned = strange;
  args.params.repetition_penalty = 2;
  args.params.presence_penalty = 1;
  args.prompt = args.output = strange;
  CHECK(drawn(args) == 1);
}

// V#13175.
TEST_CASE("padded logits past the vocabulary are never chosen") {
  std::vector<float> logits(80, 0.0f);
  for (int i = 67; i < 80; ++i) logits[i] = 1000;
  auto args = args_for(logits);
  args.vocabulary = 67;
  for (args.position = 0; args.position < 200; ++args.position) CHECK(drawn(args) < 67);
}

TEST_CASE("banned tokens are never chosen and allowed ones alone are") {
  std::vector<float> logits(300, 0.0f);
  logits[10] = 50;
  logits[20] = 40;
  auto args = args_for(logits);
  const std::int32_t banned[] = {10};
  args.params.banned = banned;
  for (args.position = 0; args.position < 20; ++args.position) CHECK(drawn(args) == 20);
  const std::int32_t allowed[] = {10, 30, 31, 30};
  args.params.allowed = allowed;
  std::map<std::int32_t, int> counts;
  for (args.position = 0; args.position < 200; ++args.position) ++counts[drawn(args)];
  CHECK(counts[30] + counts[31] == 200);
  CHECK(counts[30] > 50);
  CHECK(counts[31] > 50);
}

TEST_CASE("a ban on everything is the request's error, with the numbers") {
  std::vector<float> logits(4, 0.0f);
  const std::int32_t allowed[] = {2}, banned[] = {2};
  auto args = args_for(logits);
  args.params.allowed = allowed;
  args.params.banned = banned;
  DrawScratch scratch;
  const auto result = draw_token(args, scratch);
  CHECK(result.status.code() == StatusCode::invalid_argument);
  CHECK(result.status.message() ==
        "1 banned and 1 allowed tokens leave none of the 4 that could be chosen");
}

TEST_CASE("negative penalties make a token likelier") {
  const std::vector<float> logits = {0, 0, 0};
  const std::int32_t output[] = {2, 2, 1};
  auto args = args_for(logits);
  args.output = output;
  args.params.frequency_penalty = -1;
  args.params.presence_penalty = -0.5f;
  DrawScratch scratch;
  const auto kept = sampling::distribution(args, scratch);
  REQUIRE(kept);
  const double total = 1 + std::exp(1.5) + std::exp(2.5);
  CHECK(std::abs((*kept)[0].second - 1 / total) < 1e-6);
  CHECK(std::abs((*kept)[1].second - std::exp(1.5) / total) < 1e-6);
  CHECK(std::abs((*kept)[2].second - std::exp(2.5) / total) < 1e-6);
}

TEST_CASE("a token of the prompt alone is penalised once, by the repetition penalty only") {
  const std::vector<float> logits = {2, -2, 0};
  const std::int32_t prompt[] = {0, 0, 1, 0};
  auto args = args_for(logits);
  args.prompt = prompt;
  args.params.repetition_penalty = 2;
  args.params.frequency_penalty = 10;
  DrawScratch scratch;
  const auto kept = sampling::distribution(args, scratch);
  REQUIRE(kept);
  const double total = std::exp(1.0) + std::exp(-4.0) + 1;
  CHECK(std::abs((*kept)[0].second - std::exp(1.0) / total) < 1e-6);
  CHECK(std::abs((*kept)[1].second - std::exp(-4.0) / total) < 1e-6);
}

TEST_CASE("the logits are left as they are") {
  std::vector<float> logits(100);
  std::iota(logits.begin(), logits.end(), 0.0f);
  const auto before = logits;
  const std::int32_t output[] = {1, 2};
  auto args = args_for(logits);
  args.params.repetition_penalty = 1.5f;
  args.params.banned = output;
  args.output = output;
  drawn(args);
  CHECK(logits == before);
}

TEST_CASE("an empty vocabulary or a token outside it is an error") {
  const std::vector<float> logits = {1, 2};
  DrawScratch scratch;
  DrawArgs none;
  CHECK(draw_token(none, scratch).status.code() == StatusCode::internal);
  auto args = args_for(logits);
  args.draw = false;
  args.logprobs = 0;
  args.given = 2;
  CHECK(draw_token(args, scratch).status.message() ==
        "log-probability of token 2 of a vocabulary of 2");
}

}  // namespace
}  // namespace quire
