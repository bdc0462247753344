// What cancel leaves behind, in every state of a request.
#include <chrono>

#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("cancel in every state: true once, no event after it, pages given back", "[cancel]") {
  const Outcome expected = [] {
    Engine engine = tiny();
    return answer_of(engine, sampled({9, 8, 7}, 3));
  }();
  for (int steps = 0; steps < 12; ++steps) {
    INFO("after " << steps << " steps");
    EngineOptions options = small();
    options.cache.enabled = false;
    Engine engine = tiny(options);
    Collector collector;
    const RequestId other = submit(engine, sampled({9, 8, 7}, 3));
    const RequestId victim = submit(engine, sampled(long_prompt("llama"), 4));
    std::size_t before = 0;
    for (int i = 0; i < steps; ++i) {
      REQUIRE(engine.step({.tokens = 24}).ok());
      collector.add(engine.events());
    }
    before = collector.outcome(victim).tokens.size();
    CHECK(engine.cancel(victim));
    CHECK_FALSE(engine.cancel(victim));
    run_all(engine, collector);
    CHECK(collector.outcome(victim).tokens.size() == before);
    CHECK_FALSE(collector.ended(victim));
    CHECK(collector.outcome(other) == expected);
    REQUIRE(engine.step().ok());
    CHECK(engine.stats().pages_in_use == 0);
    CHECK(engine.stats().pages_free == engine.stats().pages_total);
  }
}

TEST_CASE("cancel between a pass and events() drops the undelivered events", "[cancel]") {
  Engine engine = tiny();
  const RequestId id = submit(engine, sampled({1, 2, 3}, 1, 1));
  REQUIRE(engine.step().ok());  // the answer is complete, but nobody has seen it
  CHECK(engine.has_work());
  CHECK(engine.cancel(id));
  CHECK(engine.events().empty());
  CHECK_FALSE(engine.has_work());
}

TEST_CASE("cancel in the middle of a pass that time cut", "[cancel]") {
  Engine engine = tiny();
  const RequestId id = submit(engine, sampled(long_prompt("llama"), 1));
  auto report = engine.step({.time = std::chrono::nanoseconds(1)});
  REQUIRE(report.ok());
  REQUIRE(report->cut);
  CHECK(engine.cancel(id));
  CHECK_FALSE(engine.has_work());
  REQUIRE(engine.step().ok());
  CHECK(engine.events().empty());
  CHECK(engine.stats().pages_in_use == 0);
  CHECK(answer_of(engine, sampled({9, 8, 7}, 3)).tokens.size() == 20);
}

TEST_CASE("cancelling n = 2 ends both answers", "[cancel]") {
  Engine engine = tiny();
  Request request = sampled({1, 2, 3, 4}, 1, 30);
  request.n = 2;
  const RequestId id = submit(engine, request);
  for (int i = 0; i < 5; ++i) REQUIRE(engine.step().ok());
  CHECK(engine.cancel(id));
  REQUIRE(engine.step().ok());
  CHECK(engine.events().empty());
  CHECK_FALSE(engine.has_work());
  CHECK(engine.stats().pages_in_use == 0);
  CHECK(engine.stats().running == 0);
}

TEST_CASE("an id that never was, or was answered, cannot be cancelled", "[cancel]") {
  Engine engine = tiny();
  CHECK_FALSE(engine.cancel(12345));
  Collector collector;
  const RequestId id = submit(engine, sampled({1, 2}, 1, 2));
  run_all(engine, collector);
  CHECK_FALSE(engine.cancel(id));
}

}  // namespace quire::testing
