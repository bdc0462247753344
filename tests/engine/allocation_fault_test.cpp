// The n-th allocation of submit, step, events and cancel fails, for the first n and more and more
// sparsely after them: the engine goes on.
#include "emulated.h"
#include "engine/workload.h"
#include "failing_new.h"

namespace quire::testing {

using test::FailingNew;
using test::live_allocations;

namespace {

constexpr long kNever = 1L << 40;
constexpr int kSteps = 12;

// The allocation to fail after the nth: the next one up to `dense`, then more and more sparsely.
long after(long nth, long dense) {
  return nth + 1 + nth / (kEmulated ? dense / 20 : dense);
}

}  // namespace

TEST_CASE("an allocation that fails in the engine costs at most the request it was for",
          "[fault]") {
  for (const bool cached : {true, false}) {
    Workload work;
    EngineOptions options = Workload::options();
    options.cache.enabled = cached;
    Engine engine = Workload::open(options);
    bool fired = true;
    int whole = 0, runs = 0;
    for (long nth = 1; fired; nth = after(nth, 64)) {
      INFO("allocation " << nth << " fails, prefix cache " << cached);
      work.prepare();
      {
        FailingNew failing(nth, FailingNew::Mode::once);
        work.run_beginning(engine, kSteps);
        fired = failing.fired();
      }
      for (StatusCode code : work.statuses()) REQUIRE(code == StatusCode::out_of_memory);
      work.run_to_the_end(engine);
      REQUIRE(work.whole() >= 6 - 3);  // without the one that is cancelled; a request has up to 3
      whole += work.whole();
      ++runs;
    }
    CHECK(runs > (kEmulated ? 20 : 200));
    CHECK(whole > runs * (kEmulated ? 4 : 5));  // most allocations cost nobody's answer, or one
  }
}

TEST_CASE("an engine that met failing allocations gives back all it had", "[fault]") {
  Workload work;
  const ModelSource source(data_path("tiny/llama/model.gguf"));
  const EngineOptions options = Workload::options();
  const auto live_and_die = [&](long nth) {
    work.prepare();
    auto engine = Engine::open(source, options);
    {
      FailingNew failing(nth, FailingNew::Mode::once);
      work.run_beginning(*engine, kSteps);  // and destroyed with requests in flight
    }
    work.prepare();
  };
  live_and_die(kNever);
  for (long nth = 1; nth < 2000; nth += kEmulated ? 401 : 61) {
    INFO("allocation " << nth << " fails");
    const long before = live_allocations();
    live_and_die(nth);
    REQUIRE(live_allocations() == before);
  }
}

TEST_CASE("memory that is gone for a while ends requests, each once, and comes back", "[fault]") {
  Workload work;
  Engine engine = Workload::open();
  bool fired = true;
  for (long nth = 1; fired; nth = after(nth, 40)) {
    INFO("every allocation fails from " << nth << " on");
    work.prepare();
    {
      FailingNew failing(nth, FailingNew::Mode::always);
      work.run_beginning(engine, kSteps);
      fired = failing.fired();
    }
    for (StatusCode code : work.statuses()) REQUIRE(code == StatusCode::out_of_memory);
    work.run_to_the_end(engine);
  }
}

TEST_CASE("generate without memory ends with a Status and leaves nothing behind", "[fault]") {
  Engine engine = Workload::open();
  const Request request = sampled({9, 8, 7}, 3, 6);
  const Outcome expected = outcome_of(generate(engine, request).choices[0]);
  for (auto mode : {FailingNew::Mode::once, FailingNew::Mode::always}) {
    bool fired = true;
    for (long nth = 1; fired; nth = after(nth, 1000)) {
      INFO("allocation " << nth << " fails");
      Request next = request;
      auto answer = [&] {
        FailingNew failing(nth, mode);
        auto result = engine.generate(std::move(next));
        fired = failing.fired();
        return result;
      }();
      if (answer.ok()) {
        REQUIRE(outcome_of(answer->choices[0]) == expected);
      } else {
        REQUIRE(answer.status().code() == StatusCode::out_of_memory);
      }
      REQUIRE_FALSE(engine.has_work());
      REQUIRE(outcome_of(generate(engine, request).choices[0]) == expected);
      REQUIRE(engine.stats().pages_in_use == 0);
    }
  }
}

TEST_CASE("opening without memory gives a Status and keeps none", "[fault]") {
  const ModelSource source(data_path("tiny/llama/model.gguf"));
  const EngineOptions options = Workload::options();
  { Engine warm = Workload::open(); }
  bool fired = true;
  for (long nth = 1; fired; nth = after(nth, 20)) {
    INFO("allocation " << nth << " fails");
    const long before = live_allocations();
    long left = 0;
    StatusCode code = StatusCode::ok;
    {
      FailingNew failing(nth, FailingNew::Mode::once);
      {
        auto engine = Engine::open(source, options);
        code = engine.status().code();
      }
      fired = failing.fired();
      left = live_allocations();
    }
    REQUIRE(left == before);
    REQUIRE((code == StatusCode::ok || code == StatusCode::out_of_memory));
  }
}

TEST_CASE("an engine thread without memory delivers one end for each choice", "[fault]") {
  const Request request = [] {
    Request r = sampled({9, 8, 7}, 3, 6);
    r.n = 2;
    return r;
  }();
  Engine engine = Workload::open();
  std::vector<Outcome> expected;
  for (const Answer& answer : generate(engine, request).choices) {
    expected.push_back(outcome_of(answer));
  }
  EngineThread worker(std::move(engine));
  bool fired = true;
  for (long nth = 1; fired; nth = after(nth, 30)) {
    INFO("allocation " << nth << " fails");
    Request next = request;
    std::vector<TokenEvent> events;
    events.reserve(100);
    Status refused;
    {
      FailingNew failing(nth, FailingNew::Mode::once);
      Completion completion = worker.submit(std::move(next));
      while (auto event = completion.next(std::chrono::seconds(60))) {
        events.push_back(std::move(*event));
      }
      if (!completion.status().ok()) refused = Status(completion.status().code(), "");
      fired = failing.fired();
    }
    if (!refused.ok()) {
      REQUIRE(refused.code() == StatusCode::out_of_memory);
      REQUIRE(events.empty());
      continue;
    }
    const RequestId id = events.at(0).request;
    Collector collector;
    collector.add(std::move(events));
    for (int choice = 0; choice < 2; ++choice) {
      REQUIRE(collector.ended(id, choice));
      const Outcome got = collector.outcome(id, choice);
      if (got.reason != FinishReason::error) {
        REQUIRE(got == expected[static_cast<std::size_t>(choice)]);
      }
    }
  }
}

}  // namespace quire::testing
