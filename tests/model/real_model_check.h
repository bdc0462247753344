#pragma once

// A real model against transformers in float32: log-probabilities of prompt and greedy tokens,
// golden ids fed back (tests/data/README.md, "model/").
#include <algorithm>

#include "model/golden.h"

namespace quire::testing {

struct Differences {
  std::vector<double> values;  // |difference| of a given token's log-probability
  double worst_prompt = 0;     // the largest mean of one prompt's, if it has 4 tokens or more
  int steps = 0;
  int other_best = 0;  // greedy steps whose best token differs although the margin is large

  double mean() const {
    double sum = 0;
    for (double v : values) sum += v;
    return sum / static_cast<double>(values.size());
  }
  double quantile(double q) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  }
};

// Adds one golden prompt: its ids and its 48 greedy ids are one prompt to the engine.
inline void compare(Engine& engine, const Json& prompt, double sure_margin,
                    Differences& differences) {
  Request request;
  request.tokens = ids_of(member(prompt, "ids"));
  const std::size_t length = request.tokens.size();
  const JsonArray& greedy = *member(prompt, "greedy").array();
  for (const Json& step : greedy)
    request.tokens.push_back(static_cast<std::int32_t>(member(step, "id").number()));
  request.max_tokens = 0;
  request.prompt_logprobs = 1;
  request.use_prefix_cache = false;
  const std::vector<double> expected = numbers_of(member(prompt, "prompt_logprobs"));
  const Generation answer = generate(engine, request);
  REQUIRE(answer.prompt_logprobs.size() == request.tokens.size());
  double sum = 0;
  for (std::size_t i = 1; i < length; ++i) {
    differences.values.push_back(std::abs(*answer.prompt_logprobs[i].logprob - expected[i]));
    sum += differences.values.back();
  }
  if (length >= 4) {
    const double mean = sum / static_cast<double>(length - 1);
    differences.worst_prompt = std::max(differences.worst_prompt, mean);
  }
  for (std::size_t i = 0; i < greedy.size(); ++i) {
    const TokenLogprob& entry = answer.prompt_logprobs[length + i];
    differences.values.push_back(std::abs(*entry.logprob - member(greedy[i], "logprob").number()));
    ++differences.steps;
    const bool sure = member(greedy[i], "margin").number() >= sure_margin;
    if (sure && entry.top[0].first != entry.id) ++differences.other_best;
  }
}

inline Differences compare_model(const char* file, const char* golden, const EngineOptions& options,
                                 double sure_margin) {
  Engine engine = open_engine(repository_model(file), options);
  const Json expected = read_json(data_path(std::string("model/") + golden));
  Differences differences;
  for (const Json& prompt : *member(expected, "prompts").array()) {
    compare(engine, prompt, sure_margin, differences);
  }
  return differences;
}

// Prints how far the differences are, and checks them.
inline void check_differences(Differences differences, double mean, double p99) {
  WARN("mean |difference| " << differences.mean() << " (limit " << mean << "), p99 "
                            << differences.quantile(0.99) << " (limit " << p99 << "), largest "
                            << differences.quantile(1) << " over " << differences.values.size()
                            << " tokens; largest mean of a prompt " << differences.worst_prompt
                            << " (limit 0.25)");
  CHECK(differences.mean() <= mean);
  CHECK(differences.quantile(0.99) <= p99);
  CHECK(differences.worst_prompt <= 0.25);
  CHECK(differences.other_best == 0);
}

inline constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m-q4_k_m.gguf";

}  // namespace quire::testing
