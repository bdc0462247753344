#include "sampling/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "cuda/device_memory.h"
#include "sampling/distribution.h"

namespace quire {
namespace {

// Parameters of one draw and the lists that they refer to.
struct Case {
  DrawArgs args;
  std::vector<std::int32_t> prompt, output, banned, allowed;
  std::vector<std::pair<std::int32_t, float>> bias;
};

class Cases {
 public:
  Cases(unsigned seed, int vocabulary) : random_(seed), vocabulary_(vocabulary) {}

  Case next() {
    Case c;
    c.args.vocabulary = vocabulary_;
    DrawParams& p = c.args.params;
    p.temperature = pick({0.0f, 0.3f, 0.8f, 1.0f, 1.7f});
    p.top_k = static_cast<int>(pick({0.0f, 0.0f, 1.0f, 2.0f, 40.0f, 200.0f}));
    p.top_p = pick({1.0f, 1.0f, 0.95f, 0.5f, 0.01f});
    p.min_p = pick({0.0f, 0.0f, 0.05f, 0.5f});
    p.repetition_penalty = pick({1.0f, 1.0f, 1.3f});
    p.frequency_penalty = pick({0.0f, 0.0f, 0.4f});
    p.presence_penalty = pick({0.0f, 0.0f, -0.6f});
    c.prompt = ids(100);
    c.output = ids(60);
    if (chance()) c.banned = ids(30);
    if (chance()) c.allowed = ids(500);
    if (chance()) {
      for (const std::int32_t id : ids(20)) c.bias.emplace_back(id, pick({-3.0f, 2.0f, 11.0f}));
      if (c.bias.size() > 2) c.bias.push_back(c.bias.front());
    }
    c.args.seed = random_();
    c.args.choice = static_cast<int>(random_() % 3);
    c.args.position = static_cast<int>(random_() % 1000);
    c.args.draw = random_() % 8 != 0;
    c.args.given = static_cast<std::int32_t>(random_() % static_cast<unsigned>(vocabulary_));
    c.args.logprobs = static_cast<int>(pick({-1.0f, 0.0f, 5.0f, 20.0f, 40.0f}));
    return c;
  }

 private:
  float pick(std::initializer_list<float> choices) {
    return *(choices.begin() + random_() % choices.size());
  }
  bool chance() { return random_() % 4 == 0; }
  std::vector<std::int32_t> ids(unsigned most) {
    std::vector<std::int32_t> all(random_() % (most + 1));
    for (std::int32_t& id : all) {
      id = static_cast<std::int32_t>(random_() % static_cast<unsigned>(vocabulary_));
    }
    return all;
  }
  std::mt19937 random_;
  int vocabulary_;
};

void connect(Case& c) {
  c.args.prompt = c.prompt;
  c.args.output = c.output;
  c.args.params.banned = c.banned;
  c.args.params.allowed = c.allowed;
  c.args.params.bias = c.bias;
}

// Log-probabilities of a double and a GPU logarithm agree to this.
constexpr float kClose = 2e-5f;

// What a wrong token says about the step that went wrong: one that the host does not keep about the
// cuts, one that it does keep about the sums or the random number.
std::string explain(const DrawArgs& args, const DrawResult& got) {
  DrawScratch scratch;
  const auto kept = sampling::distribution(args, scratch);
  if (!kept) return kept.status().message();
  double before = 0;
  bool keeps = false;
  for (const auto& [id, probability] : *kept) {
    if (id >= got.token) {
      keeps = id == got.token;
      break;
    }
    before += probability;
  }
  const auto logit = [&](std::int32_t id) {
    return id >= 0 && id < args.vocabulary ? args.logits[id] : std::nanf("");
  };
  const auto likelier = std::count_if(args.logits, args.logits + args.vocabulary, [&](float x) {
    return std::isfinite(x) && x > logit(got.token);
  });
  return "the host keeps " + std::to_string(kept->size()) + " tokens, " + (keeps ? "" : "not ") +
         "this one, with a sum of " + std::to_string(before) + " before it; " +
         std::to_string(likelier) + " raw logits are above its " +
         std::to_string(logit(got.token)) + "; lists: " + std::to_string(args.output.size()) +
         " output, " + std::to_string(args.prompt.size()) + " prompt, " +
         std::to_string(args.params.banned.size()) + " banned, " +
         std::to_string(args.params.allowed.size()) + " allowed, " +
         std::to_string(args.params.bias.size()) + " biased";
}

void check_same(const DrawArgs& args, const DrawResult& got, const DrawResult& want) {
  CHECK(got.status.code() == want.status.code());
  if (!want.status.ok()) return;
  if (got.token != want.token) {
    INFO(explain(args, got));
    CHECK(got.token == want.token);
    return;
  }
  CHECK((got.logprob == want.logprob || std::fabs(got.logprob - want.logprob) < kClose));
  REQUIRE(got.top.size() == want.top.size());
  for (std::size_t i = 0; i < want.top.size(); ++i) {
    CHECK(got.top[i].first == want.top[i].first);
    const float a = got.top[i].second, b = want.top[i].second;
    CHECK((a == b || std::fabs(a - b) < kClose));
  }
}

// A launch that lets `blocks` (1, 2, 4 or 8) thread blocks draw each of 16 tokens.
cuda::Launch launch_of_teams(int blocks) {
  cuda::Launch launch;
  launch.compute_capability = testing::compute_capability();
  launch.multiprocessors = 16 * blocks / 2;
  return launch;
}

TEST_CASE("tokens drawn on the GPU are those drawn on the host, with all parameters") {
  if (!testing::has_gpu()) return;
  const unsigned seed = 31;
  std::mt19937 random(seed);
  for (const int vocabulary : {7, 64, 300, 49152, 151936, 50257}) {
    constexpr int kRows = 24;
    std::vector<float> logits(static_cast<std::size_t>(kRows) * vocabulary);
    std::normal_distribution<float> normal(0, 3);
    for (float& x : logits) x = normal(random);
    for (int row = 0; row < kRows; ++row) {  // equal, missing and impossible values
      float* x = logits.data() + static_cast<std::size_t>(row) * vocabulary;
      if (row % 3 == 0) {
        for (int i = 0; i < vocabulary; i += 5) x[i] = std::nearbyint(x[i]);
      }
      if (row % 4 == 0) x[vocabulary / 2] = std::numeric_limits<float>::quiet_NaN();
      if (row % 5 == 0) x[vocabulary / 3] = std::numeric_limits<float>::infinity();
      if (row == 7) std::fill(x, x + vocabulary, -std::numeric_limits<float>::infinity());
    }
    const test::DeviceMemory<float> rows(logits);
    auto sampler = cuda::TokenSampler::create(0, 16, vocabulary);
    REQUIRE(sampler.ok());
    Cases cases(seed + static_cast<unsigned>(vocabulary), vocabulary);
    for (int round = 0; round < 12; ++round) {
      std::vector<Case> all;
      for (int row = 0; row < kRows; ++row) all.push_back(cases.next());
      std::vector<DrawArgs> args;
      for (int row = 0; row < kRows; ++row) {
        connect(all[static_cast<std::size_t>(row)]);
        args.push_back(all[static_cast<std::size_t>(row)].args);
        args.back().logits = rows.get() + static_cast<std::size_t>(row) * vocabulary;
      }
      std::vector<DrawResult> results(args.size());
      const int blocks = 1 << round % 4;
      const Status status = (*sampler)->run(launch_of_teams(blocks), args, results);
      INFO(status.message());
      REQUIRE(status.ok());
      DrawScratch scratch;
      for (std::size_t row = 0; row < args.size(); ++row) {
        DrawArgs on_host = args[row];
        on_host.logits = logits.data() + row * static_cast<std::size_t>(vocabulary);
        INFO("seed " << seed << " vocabulary " << vocabulary << " round " << round << " row " << row
                     << " blocks " << blocks << " temperature " << on_host.params.temperature
                     << " top_k " << on_host.params.top_k << " top_p " << on_host.params.top_p
                     << " min_p " << on_host.params.min_p);
        check_same(on_host, results[row], draw_token(on_host, scratch));
      }
    }
  }
}

TEST_CASE("top_k keeps no more tokens where each of the best is in a block of its own") {
  if (!testing::has_gpu()) return;
  constexpr int kVocabulary = 1000, kBest = 3;
  std::vector<float> logits(kVocabulary, 1.0f);
  const std::vector<std::int32_t> best = {70, 333, 999};
  for (const std::int32_t id : best) logits[static_cast<std::size_t>(id)] = 1.5f;
  const test::DeviceMemory<float> row(logits);
  auto sampler = cuda::TokenSampler::create(0, 16, kVocabulary);
  REQUIRE(sampler.ok());
  for (const float top_p : {1.0f, 0.99f}) {
    std::vector<DrawArgs> args(16);
    for (std::size_t i = 0; i < args.size(); ++i) {
      args[i].logits = row.get();
      args[i].vocabulary = kVocabulary;
      args[i].params.top_k = kBest;
      args[i].params.top_p = top_p;
      args[i].seed = i;
    }
    std::vector<DrawResult> results(args.size());
    test::require_ok((*sampler)->run(launch_of_teams(8), args, results));
    for (const DrawResult& result : results) {
      INFO("top_p " << top_p << " token " << result.token);
      CHECK(std::count(best.begin(), best.end(), result.token) == 1);
    }
  }
}

TEST_CASE("the GPU's draws have the frequencies of their distribution") {
  if (!testing::has_gpu()) return;
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f, 2.0f};
  const test::DeviceMemory<float> rows(logits);
  auto sampler = cuda::TokenSampler::create(0, 4096, static_cast<int>(logits.size()));
  REQUIRE(sampler.ok());
  std::vector<double> weights;
  double total = 0;
  for (const float x : logits) {
    weights.push_back(std::exp(x / 0.9));
    total += weights.back();
  }
  constexpr int kDraws = 65536;
  std::vector<DrawArgs> args(kDraws);
  for (int i = 0; i < kDraws; ++i) {
    args[static_cast<std::size_t>(i)].logits = rows.get();
    args[static_cast<std::size_t>(i)].vocabulary = static_cast<int>(logits.size());
    args[static_cast<std::size_t>(i)].params.temperature = 0.9f;
    args[static_cast<std::size_t>(i)].seed = 17;
    args[static_cast<std::size_t>(i)].position = i;
  }
  std::vector<DrawResult> results(args.size());
  REQUIRE((*sampler)->run({}, args, results).ok());
  std::vector<int> counts(logits.size(), 0);
  for (const DrawResult& result : results) ++counts[static_cast<std::size_t>(result.token)];
  double chi_square = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = kDraws * weights[i] / total;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  CHECK(chi_square < 20.5);  // 5 degrees of freedom, one in a thousand
}

}  // namespace
}  // namespace quire
