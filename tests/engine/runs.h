#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/golden.h"

namespace quire::testing {

inline EngineOptions small() {
  EngineOptions options;
  options.threads = 1;
  options.scheduling.max_running = 8;
  options.scheduling.max_step_tokens = 64;
  return options;
}

inline constexpr const char* kTinyModel = "tiny/llama/model.gguf";

inline Engine tiny(const EngineOptions& options = small()) {
  return open_engine(data_path(kTinyModel), options);
}

// What one answer must be bit for bit, however it was computed.
struct Outcome {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  FinishReason reason = FinishReason::none;
  bool operator==(const Outcome&) const = default;
};

inline Outcome outcome_of(const Answer& answer) {
  Outcome outcome{answer.text, answer.tokens, {}, answer.finish_reason};
  for (const TokenLogprob& entry : answer.logprobs) {
    outcome.logprobs.push_back(*entry.logprob);
    for (const auto& [id, logprob] : entry.top) outcome.logprobs.push_back(logprob);
  }
  return outcome;
}

inline Outcome answer_of(Engine& engine, const Request& request) {
  return outcome_of(generate(engine, request).choices[0]);
}

// Events of many requests, collected.
class Collector {
 public:
  void add(std::vector<TokenEvent> events) {
    for (TokenEvent& event : events) {
      Answer& answer = answers_[{event.request, event.choice}];
      CHECK(answer.finish_reason == FinishReason::none);  // nothing after the last event
      answer.text += event.text;
      answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (TokenLogprob& entry : event.logprobs) answer.logprobs.push_back(std::move(entry));
      if (event.finished) answer.finish_reason = event.finish_reason;
      if (event.report) reports_[event.request] = *event.report;
    }
  }
  Outcome outcome(RequestId id, int choice = 0) { return outcome_of(answers_[{id, choice}]); }
  const RequestReport& report(RequestId id) { return reports_[id]; }
  bool ended(RequestId id, int choice = 0) {
    return answers_[{id, choice}].finish_reason != FinishReason::none;
  }
  bool saw(RequestId id) const { return answers_.count({id, 0}) != 0; }

 private:
  std::map<std::pair<RequestId, int>, Answer> answers_;
  std::map<RequestId, RequestReport> reports_;
};

// Steps until nothing is left to do; fails the test if that takes more than `most` steps.
inline void run_all(Engine& engine, Collector& collector, const StepLimits& limits = {},
                    int most = 200000) {
  while (engine.has_work() && most-- > 0) {
    auto report = engine.step(limits);
    INFO(report.status().message());
    REQUIRE(report.ok());
    collector.add(engine.events());
  }
  REQUIRE_FALSE(engine.has_work());
}

inline RequestId submit(Engine& engine, Request request) {
  auto id = engine.submit(std::move(request));
  INFO(id.status().message());
  REQUIRE(id.ok());
  return *id;
}

// The longest golden prompt of a tiny model.
inline std::vector<std::int32_t> long_prompt(const std::string& folder) {
  const Json expected = read_json(data_path("tiny/" + folder + "/expected.json"));
  return ids_of(member(member(expected, "prompts").array()->back(), "ids"));
}

inline Request sampled(std::vector<std::int32_t> tokens, std::uint64_t seed, int max_tokens = 20) {
  Request request;
  request.tokens = std::move(tokens);
  request.max_tokens = max_tokens;
  request.logprobs = 3;
  request.sampling.temperature = 0.9f;
  request.sampling.top_k = 40;
  request.sampling.seed = seed;
  request.sampling.ignore_eos = true;
  return request;
}

}  // namespace quire::testing
