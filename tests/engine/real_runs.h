#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "engine/runs.h"

namespace quire::testing {

inline constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m-q4_k_m.gguf";

// The golden prompt of about 700 tokens, past Gemma's window of 512.
inline std::vector<std::int32_t> long_golden(const char* golden) {
  std::vector<std::int32_t> longest;
  const Json expected = read_json(data_path(std::string("model/") + golden));
  for (const Json& prompt : *member(expected, "prompts").array()) {
    std::vector<std::int32_t> ids = ids_of(member(prompt, "ids"));
    if (ids.size() > longest.size()) longest = std::move(ids);
  }
  return longest;
}

inline EngineOptions with(const std::string& device, KvType kv, int threads, int page_size) {
  EngineOptions options;
  options.device = device;
  options.cache.type = kv;
  options.cache.page_size = page_size;
  options.threads = threads;
  options.context = 1024;
  options.scheduling.max_step_tokens = 1024;
  return options;
}

inline Outcome run(Engine& engine, const Request& request, const StepLimits& limits = {}) {
  Collector collector;
  const RequestId id = submit(engine, request);
  run_all(engine, collector, limits);
  return collector.outcome(id);
}

// Tokens of the steps that compute a prompt: most of it at once, the rest in uneven pieces that end
// within pages and on both sides of Gemma's window of 512.
inline constexpr int kChunks[] = {5, 450, 3, 70, 2, 33, 90};

// The request beside another whose answer goes on all the while, then again from the cache.
inline void check_table(Engine& engine, Request request, const Outcome& expected) {
  request.tenant = "batched";  // finds nothing of a run before
  Collector collector;
  submit(engine, sampled({1, 2, 3, 4, 5}, 1, static_cast<int>(std::size(kChunks)) + 1));
  const RequestId id = submit(engine, request);
  for (int tokens : kChunks) {
    auto report = engine.step({.tokens = tokens});
    INFO(report.status().message());
    REQUIRE(report.ok());
    collector.add(engine.events());
  }
  CHECK_FALSE(collector.saw(id));
  run_all(engine, collector);
  CHECK(collector.outcome(id) == expected);
  CHECK(collector.report(id).cached_tokens == 0);
  const RequestId again = submit(engine, request);
  run_all(engine, collector);
  CHECK(collector.outcome(again) == expected);
  CHECK(collector.report(again).cached_tokens == static_cast<int>(request.tokens.size()) - 1);
}

}  // namespace quire::testing
