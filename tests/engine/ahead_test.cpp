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
    work.run_beginning(engine, steps, {});
    REQUIRE(work.statuses().empty());
    work.run_to_the_end(engine);
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
    work.run_to_the_end(engine);
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
      work.run_beginning(engine, 12, {});
      fired = device_faults().operation == 0;
      device_faults().operation = 0;
      REQUIRE(work.statuses().size() <= (fired ? 1 : 0));
      work.run_to_the_end(engine);
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
    auto report = engine.step({.time = 1ns});
    REQUIRE(report.ok());
    cut += report->cut;
    collector.add(engine.events());
  }
  CHECK(cut == 200);
  CHECK_FALSE(collector.ended(id));
  device_faults().computing = 0;
  run_all(engine, collector, {.time = 1ns});
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
  CHECK(outcome_of(generate(engine, request).choices[0]) == expected);
  CHECK(device_faults().ahead == 0);
}

TEST_CASE("an engine can go while the device computes a pass begun ahead", "[ahead]") {
  const Awaiting awaiting;
  Engine engine = Workload::open();
  submit(engine, sampled({9, 8, 7}, 3, 20));
  for (int i = 0; i < 4; ++i) REQUIRE(engine.step().ok());
  CHECK(device_faults().ahead > 0);
}

}  // namespace quire::testing
