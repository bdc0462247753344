// Engines are values: they move, end in the middle, and know nothing of each other.
#include <chrono>
#include <thread>
#include <utility>

#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("an engine moves between steps, also to another thread", "[ownership]") {
  Engine first = tiny();
  const Request request = sampled({9, 8, 7}, 3);
  const Outcome expected = answer_of(first, request);
  Engine engine = tiny();
  Collector collector;
  const RequestId id = submit(engine, request);
  REQUIRE(engine.step().ok());
  collector.add(engine.events());
  Engine moved = std::move(engine);
  std::thread other([&] {
    while (moved.has_work()) {
      if (!moved.step()) break;
      collector.add(moved.events());
    }
  });
  other.join();
  CHECK(collector.outcome(id) == expected);
}

TEST_CASE("an engine with requests in flight can be destroyed", "[ownership]") {
  Engine engine = tiny();
  submit(engine, sampled(long_prompt("llama"), 1));
  submit(engine, sampled({1}, 2));
  REQUIRE(engine.step({.time = std::chrono::nanoseconds(1)}).ok());
}

TEST_CASE("two engines in one process do not touch each other", "[ownership]") {
  Engine a = tiny(), b = open_engine(data_path("tiny/gemma3/model.gguf"), small());
  const Request request = sampled({9, 8, 7}, 3);
  const Outcome alone_a = answer_of(a, request), alone_b = answer_of(b, request);
  Outcome beside_a, beside_b;
  std::thread other([&] {
    auto answer = b.generate(request);
    if (answer) beside_b = outcome_of(answer->choices[0]);
  });
  beside_a = answer_of(a, request);
  other.join();
  CHECK(beside_a == alone_a);
  CHECK(beside_b == alone_b);
}

}  // namespace quire::testing
