// Sequences that stand on the same pages: whether attention reads these once, and what comes out.
#include <cuda_runtime_api.h>

#include "attention/plan.h"
#include "cuda/gpu.h"
#include "engine/runs.h"
#include "model/tiny_model_check.h"
#include "opened_device.h"

namespace quire::testing {
namespace {

constexpr int kRequests = 6;
constexpr Tolerance kBfloat16{3e-1, 3e-3};

std::string model() {
  return data_path("tiny/llama/model.gguf");
}

Engine open_llama(bool deterministic) {
  EngineOptions options;
  options.device = "cuda";
  options.cuda.deterministic = deterministic;
  options.cache.page_size = 16;
  options.scheduling.max_running = 16;
  Engine engine = open_engine(model(), options);
  // Prompts of a tiny model save little.
  opened_device().scratch()->tables().set_prefix_limits({1, 1, 64});
  return engine;
}

// Tiles that the plan of the last pass has for a prefix: its large ones, if each sequence had a
// row.
int prefix_items() {
  cuda::CudaScratch& scratch = *opened_device().scratch();
  if (scratch.tables().group(0).max_rows != 1) return 0;
  cuda::PlanCounters counters{};
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaMemcpy(&counters, scratch.plans().memory(0), sizeof(counters),
                     cudaMemcpyDeviceToHost) == cudaSuccess);
  return counters.large_items;
}

// Passes till all requests have ended, and those of them that read a prefix once.
struct Passes {
  int all = 0, with_prefix = 0;
};
Passes run_counting(Engine& engine, Collector& collector) {
  Passes passes;
  while (engine.has_work() && passes.all < 1000) {
    REQUIRE(engine.step().ok());
    collector.add(engine.events());
    ++passes.all;
    const int items = prefix_items();
    CHECK((items > 0) == (!opened_device().launch().deterministic &&
                          opened_device().scratch()->tables().groups_with_prefix() != 0));
    passes.with_prefix += items > 0 ? 1 : 0;
  }
  REQUIRE_FALSE(engine.has_work());
  return passes;
}

const Json& long_golden(const Json& expected) {
  return member(expected, "prompts").array()->back();
}

Request greedy(std::vector<std::int32_t> tokens) {
  Request request;
  request.tokens = std::move(tokens);
  request.max_tokens = 24;
  request.sampling.temperature = 0.0f;
  request.sampling.ignore_eos = true;
  request.logprobs = 1;
  return request;
}

void check_golden(const Json& golden, const Outcome& outcome) {
  Generation answer;
  answer.choices.resize(1);
  answer.choices[0].tokens = outcome.tokens;
  check_greedy(golden, answer, kBfloat16);
}

// Log-probabilities of the tokens that both chose.
void check_near(const Outcome& outcome, const Outcome& expected) {
  REQUIRE(outcome.tokens.size() == expected.tokens.size());
  for (std::size_t i = 0; i < outcome.tokens.size(); ++i) {
    if (outcome.tokens[i] != expected.tokens[i]) return;
    CAPTURE(i);
    CHECK(std::fabs(outcome.logprobs[2 * i] - expected.logprobs[2 * i]) < 0.1f);
  }
}

}  // namespace

TEST_CASE("requests with one prompt read its pages once, and answer as the golden does", "[gpu]") {
  if (!has_gpu()) return;
  const Json expected = read_json(expected_for_gguf("llama"));
  const Json& golden = long_golden(expected);
  const std::vector<std::int32_t> prompt = ids_of(member(golden, "ids"));
  Engine engine = open_llama(false);
  Collector collector;
  const RequestId alone = submit(engine, greedy(prompt));
  CHECK(run_counting(engine, collector).with_prefix == 0);
  check_golden(golden, collector.outcome(alone));

  std::vector<RequestId> ids;
  for (int i = 0; i < kRequests; ++i) ids.push_back(submit(engine, greedy(prompt)));
  CHECK(run_counting(engine, collector).with_prefix > 20);
  for (const RequestId id : ids) {
    CHECK(collector.report(id).cached_tokens >= 64);
    check_golden(golden, collector.outcome(id));
    check_near(collector.outcome(id), collector.outcome(alone));
  }

  Request forks = greedy(prompt);
  forks.n = kRequests;
  const RequestId forked = submit(engine, forks);
  CHECK(run_counting(engine, collector).with_prefix > 20);
  for (int choice = 0; choice < kRequests; ++choice) {
    check_golden(golden, collector.outcome(forked, choice));
    check_near(collector.outcome(forked, choice), collector.outcome(alone));
  }
}

TEST_CASE("requests with different prompts share nothing", "[gpu]") {
  if (!has_gpu()) return;
  const std::vector<std::int32_t> prompt = long_prompt("llama");
  Engine engine = open_llama(false);
  Collector collector;
  for (int i = 0; i < kRequests; ++i) {
    submit(engine, greedy({prompt.begin() + i, prompt.end()}));
  }
  CHECK(run_counting(engine, collector).with_prefix == 0);
}

TEST_CASE("deterministic: sharers of a prompt read it each, and keep their bits", "[gpu]") {
  if (!has_gpu()) return;
  const std::vector<std::int32_t> prompt = long_prompt("llama");
  Engine engine = open_llama(true);
  Collector collector;
  const RequestId alone = submit(engine, sampled(prompt, 3, 24));
  run_counting(engine, collector);
  std::vector<RequestId> ids;
  for (int i = 0; i < kRequests; ++i) ids.push_back(submit(engine, sampled(prompt, 3, 24)));
  CHECK(run_counting(engine, collector).with_prefix == 0);
  for (const RequestId id : ids) {
    CHECK(collector.outcome(id).tokens == collector.outcome(alone).tokens);
    CHECK(collector.outcome(id).logprobs == collector.outcome(alone).logprobs);
  }
}

}  // namespace quire::testing
