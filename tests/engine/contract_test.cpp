// The contracts of engine.h: events, cancel, ownership, sources, budgets.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "check_contains.h"
#include "engine/runs.h"

namespace quire::testing {
namespace {

const char* const kModel = "tiny/llama/model.gguf";

Outcome answer_of(Engine& engine, const Request& request) {
  return outcome_of(generate(engine, request).choices[0]);
}

}  // namespace

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

TEST_CASE("a model from memory and from a callback is the model from its path", "[source]") {
  const std::string bytes = read_text(data_path(kModel));
  Engine from_path = tiny();
  const Outcome expected = answer_of(from_path, sampled({9, 8, 7}, 3));

  Engine from_memory =
      open_engine(MemoryModel{std::as_bytes(std::span(bytes.data(), bytes.size()))}, small());
  CHECK(answer_of(from_memory, sampled({9, 8, 7}, 3)) == expected);

  CallbackModel callback;
  callback.size = bytes.size();
  callback.read = [&](std::uint64_t offset, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + offset, into.size());
    return true;
  };
  Engine from_callback = open_engine(callback, small());
  CHECK(answer_of(from_callback, sampled({9, 8, 7}, 3)) == expected);

  callback.read = [](std::uint64_t, std::span<std::byte>) { return false; };
  auto failed = Engine::open(callback);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().code() == StatusCode::io_error);
}

TEST_CASE("the estimate is what the engine then uses", "[budget]") {
  EngineOptions options = small();
  options.kv_bytes = 300000;
  auto need = Engine::estimate(data_path(kModel), options);
  REQUIRE(need.ok());
  Engine engine = tiny(options);
  const EngineStats stats = engine.stats();
  CHECK(stats.kv_bytes == need->kv_bytes);
  CHECK(stats.kv_bytes <= 300000);
  CHECK(stats.memory_bytes == need->weight_bytes + need->scratch_bytes + need->kv_bytes);
  CHECK(stats.pages_total * stats.page_size == need->max_tokens);

  // Exactly enough is enough, and a byte less is not.
  options.memory_bytes = need->load_peak_bytes;
  CHECK(Engine::open(data_path(kModel), options).ok());
  options.memory_bytes = need->load_peak_bytes - 1;
  auto refused = Engine::open(data_path(kModel), options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::resource_exhausted);
}

TEST_CASE("a pool of one page serves what fits it and refuses the rest", "[budget]") {
  EngineOptions options = small();
  auto need = Engine::estimate(data_path(kModel), options);
  REQUIRE(need.ok());
  options.kv_bytes = 16 * need->kv_bytes_per_token;
  Engine engine = tiny(options);
  CHECK(engine.stats().pages_total == 1);
  CHECK(answer_of(engine, sampled({1, 2, 3}, 1, 12)).tokens.size() == 12);
  auto refused = engine.submit(sampled({1, 2, 3}, 1, 40));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::resource_exhausted);
  CHECK(answer_of(engine, sampled({1, 2, 3}, 1, 12)).tokens.size() == 12);
}

TEST_CASE("without max_tokens an answer goes on for what the pages hold", "[budget]") {
  EngineOptions options = small();
  auto need = Engine::estimate(data_path(kModel), options);
  REQUIRE(need.ok());
  options.kv_bytes = 16 * need->kv_bytes_per_token;
  Engine engine = tiny(options);
  Request request = sampled({1, 2, 3}, 1);
  request.max_tokens.reset();
  // 3 of the prompt and 13 of the answer fill the page; the 14th token is drawn and not stored.
  CHECK(answer_of(engine, request).tokens.size() == 14);
}

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

TEST_CASE("the load can be watched and stopped", "[load]") {
  EngineOptions options = small();
  std::vector<double> seen;
  options.on_load_progress = [&](double done) {
    seen.push_back(done);
    return true;
  };
  CHECK(Engine::open(data_path(kModel), options).ok());
  REQUIRE(seen.size() > 2);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.back() == 1.0);
  options.on_load_progress = [](double done) { return done < 0.5; };
  auto stopped = Engine::open(data_path(kModel), options);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.status().code() == StatusCode::cancelled);
}

TEST_CASE("an exception in the host's log or progress function does not pass through", "[load]") {
  EngineOptions options = small();
  options.on_load_progress = [](double) -> bool { throw std::runtime_error("host"); };
  auto failed = Engine::open(data_path(kModel), options);
  REQUIRE_FALSE(failed.ok());
  check_contains(failed.status().message(), "host");
  options.on_load_progress = nullptr;
  options.log = [](LogLevel, std::string_view) { throw std::runtime_error("no room to log"); };
  failed = Engine::open(data_path(kModel), options);
  REQUIRE_FALSE(failed.ok());
  check_contains(failed.status().message(), "no room to log");
}

TEST_CASE("a weight that is NaN fails its request and leaves the engine usable", "[failure]") {
  auto engine = Engine::open(data_path("tiny/malformed/nan_weight.gguf"), small());
  REQUIRE(engine.ok());
  for (int i = 0; i < 2; ++i) {
    Request request;
    request.tokens = {1, 2, 3};
    request.max_tokens = 4;
    auto answer = engine->generate(request);
    CHECK_FALSE(answer.ok());
    CHECK_FALSE(engine->has_work());
    CHECK(engine->stats().pages_in_use == 0);
  }
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

TEST_CASE("a NUL in a message is a part of its text", "[api]") {
  Engine engine = tiny();
  const std::string text("ab\0cd", 5);
  auto ids = engine.tokenizer().encode_chat({{"user", text}});
  auto begin = engine.tokenizer().encode_chat({{"user", "ab"}});
  REQUIRE(ids.ok());
  REQUIRE(begin.ok());
  CHECK(ids->size() > begin->size());
  auto decoded = engine.tokenizer().decode(*ids);
  REQUIRE(decoded.ok());
  CHECK(decoded->find(text) != std::string::npos);
}

TEST_CASE("long or short RoPE factors are chosen once, by what a request may grow to", "[rope]") {
  Engine engine = open_engine(data_path("tiny/phi3_longrope/model.gguf"), small());  // long past 64
  const std::vector<std::int32_t> prompt(20, 7);
  const Generation fits = generate(engine, sampled(prompt, 1, 44));
  const Generation grows = generate(engine, sampled(prompt, 1, 45));
  CHECK(grows.report.cached_tokens == 0);  // keys are turned by other factors
  CHECK(*grows.choices[0].logprobs[0].logprob != *fits.choices[0].logprobs[0].logprob);
  const Generation again = generate(engine, sampled(prompt, 1, 44));
  CHECK(again.report.cached_tokens == 19);
  CHECK(outcome_of(again.choices[0]) == outcome_of(fits.choices[0]));
}

TEST_CASE("log-probabilities are those of the model, sorted, whatever the sampling", "[logprobs]") {
  Engine engine = tiny();
  Request plain = sampled({9, 8, 7}, 3, 1);
  plain.logprobs = 5;
  plain.sampling.temperature = 0.0f;
  const TokenLogprob expected = generate(engine, plain).choices[0].logprobs[0];
  CHECK(expected.top.size() == 5);
  CHECK(expected.top[0].first == expected.id);
  CHECK(*expected.logprob == expected.top[0].second);
  CHECK(std::is_sorted(expected.top.begin(), expected.top.end(),
                       [](const auto& a, const auto& b) { return a.second > b.second; }));
  Request odd = plain;
  odd.sampling.temperature = 3.0f;
  odd.sampling.top_p = 0.5f;
  odd.sampling.logit_bias = {{17, 4.0f}};
  odd.sampling.repetition_penalty = 1.5f;
  CHECK(generate(engine, odd).choices[0].logprobs[0].top == expected.top);
}

TEST_CASE("a padded row of the head is never chosen for text", "[sampling]") {
  Engine engine = open_engine(data_path("tiny/llama"));  // 320 rows, 316 tokens
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Request request = sampled({}, seed, 40);
    request.prompt = "hello";
    request.sampling.temperature = 3.0f;
    request.sampling.top_k = 0;
    const Generation answer = generate(engine, request);
    for (std::int32_t id : answer.choices[0].tokens) CHECK(id < 316);
  }
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
