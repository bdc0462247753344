#pragma once

#include <initializer_list>
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

// The request in steps of so many tokens each, from nothing cached.
inline void check_chunks(Engine& engine, Request request, std::initializer_list<int> sizes,
                         const Outcome& expected) {
  for (int tokens : sizes) {
    INFO("in chunks of " << tokens);
    request.tenant = "chunks of " + std::to_string(tokens);  // finds nothing of a run before
    CHECK(run(engine, request, {.tokens = tokens}) == expected);
  }
}

// The request twice at once, with room for both prompts and half of the answers.
inline void check_preempted(const std::string& path, EngineOptions options, Request request,
                            const Outcome& expected) {
  INFO("preempted");
  auto need = Engine::estimate(path, options);
  REQUIRE(need.ok());
  options.kv_bytes = (2 * request.tokens.size() + *request.max_tokens) * need->kv_bytes_per_token;
  Engine narrow = open_engine(path, options);
  Collector collector;
  std::vector<RequestId> ids;
  for (const char* tenant : {"first", "second"}) {
    request.tenant = tenant;
    ids.push_back(submit(narrow, request));
  }
  run_all(narrow, collector);
  CHECK(narrow.stats().preemptions > 0);
  for (const RequestId id : ids) CHECK(collector.outcome(id) == expected);
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
