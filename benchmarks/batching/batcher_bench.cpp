// What the scheduler costs a pass: plan and commit of 256 decoding sequences, without a model.
// Every 16th token of a sequence fills a page, which is hashed and published when the cache is on.

#include <benchmark/benchmark.h>
#include <time.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "batching/batcher.h"

namespace quire {
namespace {

constexpr int kSequences = 256;
constexpr int kPrompt = 100;  // to 150 tokens
constexpr int kAnswer = 500;

// Of this thread, so that a busy machine matters less.
double seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Batcher start(const std::vector<int>& windows, bool prefix_cache) {
  BatcherOptions options;
  options.page_size = 16;
  options.windows = windows;
  options.page_counts.assign(windows.size(), kSequences * 42);
  options.context = 1024;
  options.max_running = kSequences;
  options.max_step_tokens = 4096;
  options.prefix_cache = prefix_cache;
  Batcher batcher(options);
  std::mt19937 random(7);
  for (int i = 0; i < kSequences; ++i) {
    BatchRequest request;
    request.id = static_cast<RequestId>(i + 1);
    for (int t = kPrompt + i % 50; t > 0; --t) {
      request.prompt.push_back(static_cast<std::int32_t>(random() % 30000));
    }
    request.max_tokens = kAnswer;
    batcher.add(std::move(request), 0);
  }
  return batcher;
}

void decode(benchmark::State& state, const std::vector<int>& windows, bool prefix_cache) {
  std::optional<Batcher> batcher;
  double planning = 0, committing = 0;
  std::vector<DrawOutcome> outcomes;
  for (auto _ : state) {
    for (;;) {  // passes with prompts in them are not timed
      if (!batcher || !batcher->has_request(kSequences)) batcher = start(windows, prefix_cache);
      const double begin = seconds();
      const Plan plan = batcher->plan({}, 0);
      const double planned = seconds() - begin;
      outcomes.assign(plan.draws.size(), {});
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        outcomes[i].token = static_cast<std::int32_t>(i);
      }
      const double middle = seconds();
      batcher->commit(plan, outcomes, 0);
      const double committed = seconds() - middle;
      if (plan.decode_tokens < kSequences) continue;
      planning += planned;
      committing += committed;
      state.SetIterationTime(planned + committed);
      break;
    }
  }
  const double passes = static_cast<double>(state.iterations());
  state.counters["plan_us"] = 1e6 * planning / passes;
  state.counters["commit_us"] = 1e6 * committing / passes;
}

BENCHMARK_CAPTURE(decode, no_cache, std::vector<int>{0}, false)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, prefix_cache, std::vector<int>{0}, true)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, window_and_cache, std::vector<int>{0, 128}, true)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
