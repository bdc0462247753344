// Time to choose one token from the logits of a large vocabulary on one thread. GB/s counts the
// logits once; beside it stands what one thread reads from memory.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "cpu/isa.h"
#include "machine_peaks.h"
#include "sampling/draw.h"

namespace quire {
namespace {

constexpr int kVocabulary = 151936;  // Qwen2.5's

// Normal logits with some tokens that stand out, as language models give them.
std::vector<float> logits() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(kVocabulary);
  for (float& value : values) value = normal(random);
  for (int i = 0; i < 60; ++i) values[random() % kVocabulary] += 8;
  return values;
}

void run(benchmark::State& state, const DrawParams& params, int logprobs) {
  const std::vector<float> values = logits();
  DrawScratch scratch;
  DrawArgs args;
  args.logits = values.data();
  args.vocabulary = kVocabulary;
  args.params = params;
  args.logprobs = logprobs;
  for (auto _ : state) {
    ++args.position;
    const DrawResult result = draw_token(args, scratch);
    if (!result.status) return state.SkipWithError(result.status.message().c_str());
    benchmark::DoNotOptimize(result.token);
  }
  state.counters["GB/s"] = benchmark::Counter(kVocabulary * sizeof(float) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

DrawParams params(float temperature, int top_k, float top_p, float min_p) {
  DrawParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

BENCHMARK_CAPTURE(run, greedy, params(0, 0, 1, 0), -1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, whole, params(1, 0, 1, 0), -1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, top_k_40, params(1, 40, 1, 0), -1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, top_k_40_top_p, params(1, 40, 0.95f, 0), -1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, top_p, params(1, 0, 0.95f, 0), -1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, min_p, params(1, 0, 1, 0.05f), -1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, greedy_logprobs_5, params(0, 0, 1, 0), 5)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  quire::ThreadPoolOptions options;
  options.threads = 1;
  const auto pool = *quire::ThreadPool::create(options);
  std::printf("one thread reads %.1f GB/s\n",
              quire::cpu::measure_peaks(quire::cpu::best_isa(), *pool).read_gbytes);
  benchmark::RunSpecifiedBenchmarks();
}
