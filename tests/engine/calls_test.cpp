// generate, step and what they report.
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "check_contains.h"
#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("generate leaves the events of requests of other threads alone", "[api]") {
  // The executor is asked for help inside a step of generate: the other thread submits just then.
  Engine* running = nullptr;
  RequestId other = 0;
  EngineOptions options = small();
  options.threads = 0;
  options.executor.threads = 2;
  options.executor.post = [&](void (*task)(void*), void* argument) {
    if (Engine* engine = std::exchange(running, nullptr)) {
      std::thread([&] {
        auto id = engine->submit(sampled({1, 2}, 1, 3));
        if (id) other = *id;
      }).join();
    }
    task(argument);
  };
  Engine engine = tiny(options);
  const Outcome expected = answer_of(engine, sampled({9, 8, 7}, 3));
  running = &engine;
  CHECK(answer_of(engine, sampled({9, 8, 7}, 3)) == expected);
  REQUIRE(other != 0);
  CHECK(engine.has_work());
  Collector collector;
  run_all(engine, collector);
  CHECK(collector.outcome(other).tokens.size() == 3);
}

TEST_CASE("generate refuses while the engine has other work", "[api]") {
  Engine engine = tiny();
  submit(engine, sampled({1, 2}, 1));
  Request request = sampled({3}, 1);
  auto refused = engine.generate(request);
  REQUIRE_FALSE(refused.ok());
  check_contains(refused.status().message(), "submit");
}

TEST_CASE("a step without work returns at once and reports the pages", "[api]") {
  Engine engine = tiny();
  auto report = engine.step();
  REQUIRE(report.ok());
  CHECK(report->sequences == 0);
  CHECK(report->pages_free == engine.stats().pages_total);
  CHECK_FALSE(engine.step({.time = std::chrono::nanoseconds(-1)}).ok());
}

TEST_CASE("the report tells what a request cost", "[api]") {
  Engine engine = tiny();
  const Generation cold = generate(engine, sampled(long_prompt("llama"), 1, 5));
  CHECK(cold.report.prompt_tokens == 96);
  CHECK(cold.report.cached_tokens == 0);
  CHECK(cold.report.generated_tokens == 5);
  CHECK(cold.report.first_token_seconds > 0);
  CHECK(cold.report.first_token_seconds >= cold.report.prefill_seconds);
  CHECK(cold.report.preemptions == 0);
  CHECK(generate(engine, sampled(long_prompt("llama"), 1, 5)).report.cached_tokens == 95);
}

TEST_CASE("the next turn of a chat starts where the last one ended", "[cache]") {
  Engine engine = tiny();
  const Generation first = generate(engine, sampled(long_prompt("llama"), 1, 13));
  std::vector<std::int32_t> next = long_prompt("llama");
  next.insert(next.end(), first.choices[0].tokens.begin(), first.choices[0].tokens.end());
  next.insert(next.end(), {5, 6, 7});
  // 96 + 13 tokens, of which the last was drawn but never computed: 6 pages and 12 of the 7th.
  CHECK(generate(engine, sampled(next, 1, 2)).report.cached_tokens == 96 + 12);
}

}  // namespace quire::testing
