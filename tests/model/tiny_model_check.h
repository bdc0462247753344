#pragma once

// A tiny model of tests/data/tiny against transformers' outputs in float32.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "emulated.h"
#include "model/golden.h"

namespace quire::testing {

namespace fs = std::filesystem;

// Tokens of an answer that are looked at, of so many that are known.
inline std::size_t steps_of(std::size_t known) {
  return kEmulated ? std::min<std::size_t>(known, 6) : known;
}

struct Tolerance {
  double largest;      // of |difference| / s, s the standard deviation of the logits
  double mean_square;  // of the differences / s^2
};

inline double deviation(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  double sum = 0;
  for (double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / values.size());
}

// log_softmax of reference logits, to compare with log-probabilities: the same up to a constant.
inline std::vector<double> log_softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double v : logits) sum += std::exp(v - largest);
  std::vector<double> result;
  for (double v : logits) result.push_back(v - largest - std::log(sum));
  return result;
}

inline void check_last_logits(const Json& prompt, const TokenLogprob& first,
                              const Tolerance& tolerance) {
  const std::vector<double> logits = numbers_of(member(prompt, "last_logits"));
  const std::vector<double> expected = log_softmax(logits);
  REQUIRE(first.top.size() == expected.size());
  const double s = deviation(logits);
  double largest = 0, square = 0;
  for (const auto& [id, logprob] : first.top) {
    const double difference = logprob - expected[static_cast<std::size_t>(id)];
    largest = std::max(largest, std::abs(difference) / s);
    square += difference * difference / (s * s);
  }
  INFO("largest difference " << largest << " s, mean square " << square / expected.size());
  CHECK(largest <= tolerance.largest);
  CHECK(square / expected.size() <= tolerance.mean_square);
}

// Each position's best id, where its lead is more than twice the allowed difference.
inline void check_argmax(const Json& prompt, const Generation& answer, const Tolerance& tolerance) {
  const std::vector<std::int32_t> argmax = ids_of(member(prompt, "argmax"));
  const std::vector<double> margin = numbers_of(member(prompt, "margin"));
  const double s = deviation(numbers_of(member(prompt, "last_logits")));
  REQUIRE(answer.prompt_logprobs.size() == argmax.size());
  for (std::size_t i = 0; i + 1 < argmax.size(); ++i) {
    if (margin[i] <= 2 * tolerance.largest * s) continue;
    INFO("position " << i);
    CHECK(answer.prompt_logprobs[i + 1].top.at(0).first == argmax[i]);
  }
}

inline void check_greedy(const Json& prompt, const Generation& answer, const Tolerance& tolerance) {
  const std::vector<std::int32_t> greedy = ids_of(member(prompt, "greedy"));
  const std::vector<double> margin = numbers_of(member(prompt, "greedy_margin"));
  const double s = deviation(numbers_of(member(prompt, "last_logits")));
  const std::size_t steps = steps_of(greedy.size());
  REQUIRE(answer.choices[0].tokens.size() == steps);
  for (std::size_t i = 0; i < steps; ++i) {
    if (margin[i] <= 2 * tolerance.largest * s) return;  // from here on the texts may part
    INFO("step " << i);
    REQUIRE(answer.choices[0].tokens[i] == greedy[i]);
  }
}

inline void check_model(const std::string& model, const Json& expected,
                        const EngineOptions& options, const Tolerance& tolerance) {
  INFO(model << " on " << options.device);
  Engine engine = open_engine(model, options);
  for (const Json& prompt : *member(expected, "prompts").array()) {
    Request request;
    request.tokens = ids_of(member(prompt, "ids"));
    INFO("prompt of " << request.tokens.size());
    request.max_tokens = static_cast<int>(steps_of(member(prompt, "greedy").array()->size()));
    request.sampling.temperature = 0.0f;
    request.sampling.ignore_eos = true;
    request.logprobs = static_cast<int>(member(prompt, "last_logits").array()->size());
    request.prompt_logprobs = 1;
    const Generation answer = generate(engine, request);
    check_last_logits(prompt, answer.choices[0].logprobs.at(0), tolerance);
    check_argmax(prompt, answer, tolerance);
    check_greedy(prompt, answer, tolerance);
  }
}

inline std::string expected_for_gguf(const std::string& folder) {
  const std::string own = data_path("tiny/" + folder + "/expected_gguf.json");
  return fs::exists(own) ? own : data_path("tiny/" + folder + "/expected.json");
}

}  // namespace quire::testing
