// Threads: of callers, of an engine's own, of its host's executor.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("submit and cancel from other threads while the engine steps", "[threads]") {
  Engine engine = tiny();
  std::atomic<int> cancelled{0}, accepted{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        auto id = engine.submit(sampled({1, 2, 3 + t, i}, i, 6));
        if (!id) continue;
        ++accepted;
        if (i % 3 == 0) cancelled += engine.cancel(*id);
      }
    });
  }
  int ended = 0;
  std::thread stopper([&] {
    for (std::thread& caller : callers) caller.join();
    done = true;
  });
  while (!done || engine.has_work()) {
    auto report = engine.step();
    REQUIRE(report.ok());
    for (const TokenEvent& event : engine.events()) ended += event.finished;
  }
  stopper.join();
  CHECK(ended + cancelled == accepted);
  CHECK(engine.stats().pages_in_use == 0);
}

TEST_CASE("two threads compute what one does, batched and cut by time", "[threads]") {
  EngineOptions options = small();
  options.threads = 2;
  Engine two = tiny(options), one = tiny();
  Collector collector;
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(submit(two, sampled({1, 2, i}, i)));
  run_all(two, collector, {.time = std::chrono::microseconds(50)});
  for (int i = 0; i < 4; ++i) {
    CHECK(collector.outcome(ids[i]) == answer_of(one, sampled({1, 2, i}, i)));
  }
}

TEST_CASE("with one thread an engine starts none", "[threads]") {
  const auto threads = [] {
    std::set<std::string> ids;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      ids.insert(task.path().filename());
    }
    return ids;
  };
  const std::set<std::string> before = threads();
  const auto started = [&] {
    std::ptrdiff_t count = 0;
    for (const std::string& id : threads()) count += !before.contains(id);
    return count;
  };
  Engine one = tiny();
  submit(one, sampled(long_prompt("llama"), 1));
  REQUIRE(one.step().ok());
  CHECK(started() == 0);
  EngineOptions options = small();
  options.threads = 3;
  Engine three = tiny(options);
  CHECK(started() == 2);
}

TEST_CASE("a host's executor runs the work", "[executor]") {
  struct Worker {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::pair<void (*)(void*), void*>> tasks;
    bool stop = false;
    int ran = 0;
  } worker;
  std::thread thread([&] {
    std::unique_lock lock(worker.mutex);
    while (true) {
      worker.changed.wait(lock, [&] { return worker.stop || !worker.tasks.empty(); });
      if (worker.tasks.empty()) return;
      auto [task, argument] = worker.tasks.front();
      worker.tasks.pop_front();
      ++worker.ran;
      lock.unlock();
      task(argument);
      lock.lock();
    }
  });
  {
    EngineOptions options = small();
    options.threads = 0;  // as many as the executor has
    options.executor.threads = 2;
    options.executor.post = [&](void (*task)(void*), void* argument) {
      std::lock_guard lock(worker.mutex);
      worker.tasks.emplace_back(task, argument);
      worker.changed.notify_one();
    };
    Engine engine = tiny(options);
    Engine own = tiny();
    CHECK(answer_of(engine, sampled({9, 8, 7}, 3)) == answer_of(own, sampled({9, 8, 7}, 3)));
  }
  {
    std::lock_guard lock(worker.mutex);
    worker.stop = true;
  }
  worker.changed.notify_one();
  thread.join();
  CHECK(worker.ran > 0);
}

}  // namespace quire::testing
