// The engine's contracts on a GPU: cancel, budgets, several engines, and what does not change a
// request's tokens.
#include <cuda_runtime_api.h>

#include "check_contains.h"
#include "cuda/gpu.h"
#include "engine/runs.h"

namespace quire::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr StepLimits kAhead{.run_ahead = true};

EngineOptions options_with(int max_step_tokens, bool deterministic = true) {
  EngineOptions options;
  options.device = "cuda";
  options.cuda.deterministic = deterministic;
  options.scheduling.max_running = 16;
  options.scheduling.max_step_tokens = max_step_tokens;
  return options;
}

std::string model(const std::string& folder) {
  return data_path("tiny/" + folder + "/model.gguf");
}

Outcome alone(const std::string& folder, const Request& request, KvType kv = KvType::bf16) {
  EngineOptions options = options_with(512);
  options.cache.type = kv;
  Engine engine = open_engine(model(folder), options);
  Collector collector;
  const RequestId id = submit(engine, request);
  run_all(engine, collector);
  return collector.outcome(id);
}

void check_same(const Outcome& a, const Outcome& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.logprobs == b.logprobs);
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return free;
}

}  // namespace

TEST_CASE("deterministic: a request's bits do not depend on its neighbours and chunks", "[gpu]") {
  if (!has_gpu()) return;
  for (const char* folder : {"llama", "gemma3"}) {
    INFO(folder);
    const std::vector<std::int32_t> prompt = long_prompt(folder);
    const Request request = sampled(prompt, 7);
    const Outcome expected = alone(folder, request);
    Engine engine = open_engine(model(folder), options_with(40));  // chunks of at most 40
    Collector collector;
    std::vector<RequestId> others;
    for (int i = 0; i < 9; ++i) {
      std::vector<std::int32_t> other(prompt.begin() + i, prompt.begin() + 20 + 7 * i);
      others.push_back(submit(engine, sampled(std::move(other), 100 + i, 5 + 3 * i)));
    }
    const RequestId id = submit(engine, request);
    run_all(engine, collector, kAhead);
    check_same(collector.outcome(id), expected);
    for (const RequestId other : others) CHECK(collector.ended(other));
  }
}

TEST_CASE("deterministic: cached prefixes and forks give the bits of a cold run", "[gpu]") {
  if (!has_gpu()) return;
  struct Setting {
    const char* folder;
    KvType kv;
  };
  for (const auto& [folder, kv] : {Setting{"llama", KvType::bf16}, Setting{"gemma3", KvType::bf16},
                                   Setting{"llama", KvType::fp8}, Setting{"gemma3", KvType::fp8}}) {
    INFO(folder << ", KV type " << static_cast<int>(kv));
    const std::vector<std::int32_t> prompt = long_prompt(folder);
    const Outcome expected = alone(folder, sampled(prompt, 3), kv);
    EngineOptions options = options_with(512);
    options.cache.type = kv;
    options.cache.page_size = 16;
    Engine engine = open_engine(model(folder), options);
    Collector collector;
    // Ends inside a page, so that the next request copies a part of it.
    submit(engine, sampled({prompt.begin(), prompt.begin() + 71}, 1, 2));
    run_all(engine, collector, kAhead);
    const RequestId warm = submit(engine, sampled(prompt, 3));
    run_all(engine, collector, kAhead);
    CHECK(collector.report(warm).cached_tokens > 0);
    check_same(collector.outcome(warm), expected);
    Request fork = sampled(prompt, 3);
    fork.n = 3;
    const RequestId forked = submit(engine, fork);
    run_all(engine, collector, kAhead);
    check_same(collector.outcome(forked, 0), expected);
    CHECK(collector.outcome(forked, 1).tokens.size() == expected.tokens.size());
  }
}

TEST_CASE("a cancelled request ends at once and gives its pages back", "[gpu]") {
  if (!has_gpu()) return;
  Engine engine = open_engine(model("llama"), options_with(64, false));
  Collector collector;
  const RequestId ended = submit(engine, sampled({1, 2, 3}, 1, 400));
  const RequestId kept = submit(engine, sampled({4, 5, 6}, 2, 30));
  for (int i = 0; i < 5; ++i) REQUIRE(engine.step().ok());
  CHECK(engine.cancel(ended));
  CHECK_FALSE(engine.cancel(ended));
  for (const TokenEvent& event : engine.events()) CHECK(event.request != ended);
  run_all(engine, collector, kAhead);
  CHECK_FALSE(collector.saw(ended));
  CHECK(collector.ended(kept));
  CHECK(engine.stats().pages_in_use == 0);
}

TEST_CASE("a step with a time limit goes on where it stopped", "[gpu]") {
  if (!has_gpu()) return;
  const Request request = sampled(long_prompt("llama"), 5);
  const Outcome expected = alone("llama", request);
  Engine engine = open_engine(model("llama"), options_with(512));
  Collector collector;
  const RequestId id = submit(engine, request);
  StepLimits limits;
  limits.time = std::chrono::microseconds(5);
  run_all(engine, collector, limits);
  check_same(collector.outcome(id), expected);
}

TEST_CASE("an engine closed in the middle of a recorded pass gives its memory back", "[gpu]") {
  if (!has_gpu()) return;
  EngineOptions options = options_with(64);
  options.kv_bytes = 512 * kMiB;
  { Engine first = open_engine(model("llama"), options); }  // what a process loads but once
  const std::size_t before = free_bytes();
  // A shape of passes is recorded when it has come some times; which time that is the GPU decides.
  for (int passes = 2; passes < 8; ++passes) {
    {
      Engine engine = open_engine(model("llama"), options);
      CHECK(before - free_bytes() > 256 * kMiB);
      submit(engine, sampled({1, 2, 3}, 5, 40));
      for (int i = 0; i < passes; ++i) REQUIRE(engine.step().ok());
      StepLimits limits;
      limits.time = std::chrono::microseconds(1);
      for (int i = 0; i < 3; ++i) REQUIRE(engine.step(limits).ok());
    }
    CAPTURE(passes);
    CHECK(before - std::min(before, free_bytes()) < 64 * kMiB);
  }
}

TEST_CASE("budgets hold on the GPU and too large ones are a Status", "[gpu]") {
  if (!has_gpu()) return;
  {
    Engine warm = open_engine(model("llama"), options_with(64));  // the context is made once
  }
  EngineOptions options = options_with(512);
  options.kv_bytes = 1024 * kMiB;
  const auto estimate = Engine::estimate(model("llama"), options);
  REQUIRE(estimate.ok());
  CHECK(estimate->kv_bytes <= options.kv_bytes);
  const std::size_t before = free_bytes();
  {
    Engine engine = open_engine(model("llama"), options);
    const std::size_t used = before - free_bytes();
    INFO(used << " bytes used, " << engine.stats().memory_bytes << " reported");
    CHECK(used >= estimate->kv_bytes);
    // Allocations take whole pieces of 2 MiB.
    CHECK(used <= engine.stats().memory_bytes + 128 * kMiB);
  }
  CHECK(free_bytes() + 8 * kMiB >= before);

  EngineOptions small = options_with(512);
  small.memory_bytes = kMiB / 4;
  CHECK(Engine::open(model("llama"), small).status().code() == StatusCode::resource_exhausted);
  EngineOptions huge = options_with(512);
  huge.kv_bytes = std::size_t{1} << 42;
  const Status status = Engine::open(model("llama"), huge).status();
  CHECK(status.code() == StatusCode::out_of_memory);
  check_contains(status.message(), "free");
  CHECK(free_bytes() + 8 * kMiB >= before);
  CHECK_FALSE(alone("llama", sampled({1, 2, 3}, 1)).tokens.empty());
}

TEST_CASE("two engines on one GPU do not disturb each other", "[gpu]") {
  if (!has_gpu()) return;
  const Request a = sampled(long_prompt("llama"), 11), b = sampled(long_prompt("gemma3"), 12);
  const Outcome expected_a = alone("llama", a), expected_b = alone("gemma3", b);
  Engine first = open_engine(model("llama"), options_with(64));
  Engine second = open_engine(model("gemma3"), options_with(64));
  Collector from_first, from_second;
  const RequestId id_a = submit(first, a), id_b = submit(second, b);
  while (first.has_work() || second.has_work()) {
    REQUIRE(first.step().ok());
    REQUIRE(second.step().ok());
    from_first.add(first.events());
    from_second.add(second.events());
  }
  check_same(from_first.outcome(id_a), expected_a);
  check_same(from_second.outcome(id_b), expected_b);
}

TEST_CASE("preemption on the GPU changes no tokens", "[gpu]") {
  if (!has_gpu()) return;
  const std::vector<std::int32_t> prompt = long_prompt("llama");
  std::vector<Outcome> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(alone("llama", sampled(prompt, 40 + i, 60)));
  EngineOptions options = options_with(512);
  options.cache.page_size = 16;
  const auto estimate = Engine::estimate(model("llama"), options);
  REQUIRE(estimate.ok());
  options.kv_bytes = 24 * 16 * estimate->kv_bytes_per_token;
  Engine engine = open_engine(model("llama"), options);
  Collector collector;
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) {
    Request request = sampled(prompt, 40 + i, 60);
    request.tenant = "tenant " + std::to_string(i);  // no shared pages
    ids.push_back(submit(engine, request));
  }
  run_all(engine, collector);
  CHECK(engine.stats().preemptions > 0);
  for (std::size_t i = 0; i < ids.size(); ++i) check_same(collector.outcome(ids[i]), expected[i]);
}

}  // namespace quire::testing
