// A device that computes passes in their order while the host goes on: the next pass is begun
// before the tokens of the last one are known.
#include <chrono>
#include <new>

#include "emulated.h"
#include "engine/faulty_device.h"
#include "engine/workload.h"

namespace quire::testing {
namespace {

constexpr int kAnswers = 7;  // of the workload
constexpr StepLimits kAhead{.run_ahead = true};

// The answer of one request alone.
Outcome answer(Engine& engine, Request request, const StepLimits& limits) {
  Collector collector;
  const RequestId id = submit(engine, std::move(request));
  run_all(engine, collector, limits);
  return collector.outcome(id);
}

// Draws are awaited till the end of the test.
struct Awaiting {
  Awaiting() { device_faults().awaits = true; }
  ~Awaiting() { device_faults() = {}; }
};

}  // namespace

TEST_CASE("passes begun ahead change no answer, whatever ends or is cancelled meanwhile",
          "[ahead]") {
  Workload work;
  const Awaiting awaiting;
  Engine engine = Workload::open();
  for (int steps = 0; steps < (kEmulated ? 4 : 30); ++steps) {
    INFO(steps << " steps before the rest");
    work.prepare();
    work.run_beginning(engine, steps, kAhead);
    REQUIRE(work.statuses().empty());
    work.run_to_the_end(engine, kAhead);
    REQUIRE(work.whole() >= kAnswers - 1);  // one is cancelled in the fifth step
  }
  CHECK(device_faults().ahead > 20);
}

TEST_CASE("a pass whose draws are lost is computed again and nobody notices", "[ahead]") {
  Workload work;
  const Awaiting awaiting;
  bool fired = true;
  int lost = 0;
  for (int nth = 1; fired; nth += kEmulated ? 7 : 1) {
    INFO("awaited draws " << nth << " are lost");
    Engine engine = Workload::open();
    work.prepare();
    device_faults().lost = nth;
    work.run_beginning(engine, 0);
    work.run_to_the_end(engine, kAhead);
    REQUIRE(work.whole() == kAnswers);
    fired = device_faults().lost == 0;
    device_faults().lost = 0;
    lost += fired;
  }
  CHECK(lost > (kEmulated ? 2 : 20));
}

TEST_CASE("an operation that fails in a pass begun ahead costs no answer of the pass before",
          "[ahead]") {
  Workload work;
  const Awaiting awaiting;
  Status (*const failures[])() = {
      [] { return Status(StatusCode::device_error, "the device is gone"); },
      [] { return Status(StatusCode::out_of_memory, "the device has no memory"); },
      []() -> Status { throw std::bad_alloc(); }};
  for (const auto failure : failures) {
    Engine engine = Workload::open();
    bool fired = true;
    for (int nth = 1; fired; nth += kEmulated ? 83 : 7) {
      INFO("operation " << nth);
      work.prepare();
      device_faults().failure = failure;
      device_faults().operation = nth;
      work.run_beginning(engine, 12, kAhead);
      fired = device_faults().operation == 0;
      device_faults().operation = 0;
      REQUIRE(work.statuses().size() <= (fired ? 1 : 0));
      work.run_to_the_end(engine, kAhead);
      if (work.statuses().empty()) REQUIRE(work.whole() >= kAnswers - 1);
    }
  }
}

TEST_CASE("a step with a time limit does not wait for the device", "[ahead]") {
  using namespace std::chrono_literals;
  Engine before = Workload::open();
  const Outcome expected = outcome_of(generate(before, sampled({9, 8, 7}, 3, 6)).choices[0]);
  const Awaiting awaiting;
  Engine engine = Workload::open();
  const RequestId id = submit(engine, sampled({9, 8, 7}, 3, 6));
  device_faults().computing = 1 << 30;
  Collector collector;
  int cut = 0;
  for (int i = 0; i < 200; ++i) {
    auto report = engine.step({.time = 1ns, .run_ahead = true});
    REQUIRE(report.ok());
    cut += report->cut;
    collector.add(engine.events());
  }
  CHECK(cut == 200);
  CHECK_FALSE(collector.ended(id));
  device_faults().computing = 0;
  run_all(engine, collector, {.time = 1ns, .run_ahead = true});
  CHECK(collector.outcome(id) == expected);
  CHECK(device_faults().ahead == 0);  // no more work than was asked for
}

TEST_CASE("a draw that reads the tokens before it waits for them", "[ahead]") {
  Request request = sampled({9, 8, 7}, 3, 12);
  request.sampling.repetition_penalty = 1.3f;
  Engine before = Workload::open();
  const Outcome expected = outcome_of(generate(before, request).choices[0]);
  const Awaiting awaiting;
  Engine engine = Workload::open();
  CHECK(answer(engine, request, kAhead) == expected);
  CHECK(device_faults().ahead == 0);
}

TEST_CASE("an answer after prompt log-probabilities goes on from its own draw", "[ahead]") {
  Request request = sampled({9, 8, 7, 6, 5, 4}, 3, 12);
  request.prompt_logprobs = 2;
  EngineOptions options = Workload::options();
  options.scheduling.max_running = 16;  // as many rows of logits: those of the prompt are one block
  Engine before = Workload::open(options);
  const Outcome expected = outcome_of(generate(before, request).choices[0]);
  const Awaiting awaiting;
  Engine engine = Workload::open(options);
  CHECK(answer(engine, request, kAhead) == expected);
  CHECK(device_faults().ahead > 0);
  CHECK(answer(engine, request, kAhead) == expected);  // with what is in the cache now
}

TEST_CASE("a step without run_ahead leaves the device nothing to do", "[ahead]") {
  const Awaiting awaiting;
  Engine engine = Workload::open();
  CHECK(answer(engine, sampled({9, 8, 7}, 3, 12), {}).tokens.size() == 12);
  CHECK(device_faults().ahead == 0);
}

TEST_CASE("a step with a limit of tokens keeps it after one that ran ahead", "[ahead]") {
  Engine before = Workload::open();
  std::vector<Outcome> expected;
  for (int i = 0; i < 4; ++i) {
    expected.push_back(answer(before, sampled({9, 8, 7}, 3 + static_cast<std::uint64_t>(i)), {}));
  }
  const Awaiting awaiting;
  Engine engine = Workload::open();
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(submit(engine, sampled({9, 8, 7}, 3 + static_cast<std::uint64_t>(i))));
  }
  Collector collector;
  for (int i = 0; engine.has_work(); ++i) {
    REQUIRE(i < 1000);
    auto report = engine.step(i % 3 != 2 ? kAhead : StepLimits{.tokens = 2});
    REQUIRE(report.ok());
    if (i % 3 == 2) REQUIRE(report->decode_tokens + report->prefill_tokens <= 2);
    collector.add(engine.events());
  }
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK(collector.outcome(ids[i]) == expected[i]);
  CHECK(device_faults().ahead > 0);
}

TEST_CASE("an engine can go while the device computes a pass begun ahead", "[ahead]") {
  const Awaiting awaiting;
  Engine engine = Workload::open();
  submit(engine, sampled({9, 8, 7}, 3, 20));
  for (int i = 0; i < 4; ++i) REQUIRE(engine.step(kAhead).ok());
  CHECK(device_faults().ahead > 0);
}

}  // namespace quire::testing
