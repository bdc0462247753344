#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/runs.h"

namespace quire::testing {
namespace {

// Holds the engine's thread inside a step, so that what a test does meanwhile cannot come too late.
class Gate {
 public:
  // An engine that waits inside each step while the gate is shut; it stands open while one loads.
  Engine engine() {
    EngineOptions options = small();
    options.threads = 0;
    options.executor.threads = 2;
    options.executor.post = [this](void (*task)(void*), void* argument) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return open_; });
      lock.unlock();
      task(argument);
    };
    Engine engine = tiny(options);
    set(false);
    return engine;
  }
  void open() { set(true); }

 private:
  void set(bool open) {
    std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

}  // namespace

TEST_CASE("answers through an engine thread are those of the engine", "[thread]") {
  Engine engine = tiny();
  std::vector<Outcome> expected;
  for (int i = 0; i < 6; ++i) {
    expected.push_back(outcome_of(generate(engine, sampled({1, 2, 3, i}, i)).choices[0]));
  }
  EngineThread worker(tiny());
  std::vector<std::thread> callers;
  std::vector<Outcome> got(6);
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] {
      Completion completion = worker.submit(sampled({1, 2, 3, i}, i));
      auto answer = completion.wait();
      if (answer) got[i] = outcome_of(answer->choices[0]);
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(got == expected);
}

TEST_CASE("events come one by one and end with nothing", "[thread]") {
  EngineThread worker(tiny());
  Completion completion = worker.submit(sampled({1, 2, 3}, 1, 7));
  REQUIRE(completion.status().ok());
  int events = 0, last = 0;
  while (auto event = completion.next(std::chrono::seconds(30))) {
    ++events;
    last += event->finished;
  }
  CHECK(events == 7);
  CHECK(last == 1);
  CHECK(completion.done());
  CHECK_FALSE(completion.cancel());
}

TEST_CASE("a refused request has its status and no events", "[thread]") {
  EngineThread worker(tiny());
  Request request;
  request.tokens = {-1};
  Completion completion = worker.submit(request);
  CHECK_FALSE(completion.status().ok());
  CHECK(completion.id() == 0);
  CHECK(completion.done());
  CHECK_FALSE(completion.next().has_value());
  CHECK_FALSE(completion.wait().ok());
}

TEST_CASE("after cancel, next delivers nothing", "[thread]") {
  EngineThread worker(tiny());
  Completion completion = worker.submit(sampled({1, 2, 3}, 1, 400));
  REQUIRE(completion.next(std::chrono::seconds(30)).has_value());
  CHECK(completion.cancel());
  CHECK_FALSE(completion.cancel());
  CHECK_FALSE(completion.next().has_value());
  CHECK(completion.done());
  // The engine goes on for others.
  Completion other = worker.submit(sampled({4}, 1, 3));
  CHECK(other.wait().ok());
}

TEST_CASE("destroying the thread ends every request as cancelled", "[thread]") {
  Gate gate;
  std::vector<Completion> completions;
  std::optional<EngineThread> worker(gate.engine());
  for (int i = 0; i < 3; ++i) completions.push_back(worker->submit(sampled({1, 2, i}, i, 40)));
  std::thread destroyer([&] { worker.reset(); });
  for (Completion& completion : completions) {
    FinishReason reason = FinishReason::none;
    while (auto event = completion.next(std::chrono::seconds(30))) {
      CHECK(reason == FinishReason::none);
      if (event->finished) reason = event->finish_reason;
    }
    CHECK(reason == FinishReason::cancelled);
    CHECK(completion.done());
  }
  gate.open();
  destroyer.join();
}

TEST_CASE("waiting for a request that another thread cancels gives cancelled", "[thread]") {
  Gate gate;
  EngineThread worker(gate.engine());
  Completion completion = worker.submit(sampled({1, 2, 3}, 1, 40));
  std::thread other([&] { completion.cancel(); });
  auto answer = completion.wait();
  other.join();
  gate.open();
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().code() == StatusCode::cancelled);
}

TEST_CASE("the pages of the last request are given back although it was cancelled", "[thread]") {
  EngineThread worker(tiny());
  Completion completion = worker.submit(sampled({1, 2, 3}, 1, 400));
  REQUIRE(completion.next(std::chrono::seconds(30)).has_value());
  REQUIRE(completion.cancel());
  for (int i = 0; i < 3000 && worker.stats().pages_in_use > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(worker.stats().pages_in_use == 0);
}

TEST_CASE("a dropped completion cancels its request", "[thread]") {
  EngineThread worker(tiny());
  { Completion dropped = worker.submit(sampled({1, 2, 3}, 1, 400)); }
  Completion other = worker.submit(sampled({4}, 1, 3));
  CHECK(other.wait().ok());
  CHECK(worker.stats().running == 0);
}

TEST_CASE("next gives up after its wait", "[thread]") {
  Gate gate;
  EngineThread worker(gate.engine());
  Completion completion = worker.submit(sampled({1, 2, 3}, 1, 40));
  CHECK_FALSE(completion.next(std::chrono::milliseconds(1)).has_value());
  CHECK_FALSE(completion.done());
  gate.open();
  CHECK(completion.wait().ok());
}

}  // namespace quire::testing
