// Time of one layer's paged_attention. Arguments: rows of the call, tokens of the sequence,
// threads. Beside GMAC/s: the share of the peak of the instruction that multiplies, and of the
// bandwidth if keys and values came from memory, both measured before with as many threads.

#include <benchmark/benchmark.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cpu/isa.h"
#include "cpu/kv_layout.h"
#include "device/device.h"
#include "machine_peaks.h"

namespace quire {
namespace {

struct Model {
  int heads, kv_heads, head_size;
};
constexpr Model kSmolLm2{9, 3, 64};
constexpr Model kGemma3{4, 1, 256};

const cpu::MachinePeaks& peaks_of(cpu::Isa isa, int threads) {
  static std::map<std::pair<cpu::Isa, int>, cpu::MachinePeaks> known;
  const auto [found, is_new] = known.try_emplace({isa, threads});
  if (is_new) {
    ThreadPoolOptions options;
    options.threads = threads;
    found->second = cpu::measure_peaks(isa, **ThreadPool::create(options));
  }
  return found->second;
}

void run(benchmark::State& state, const char* name, const Model& model, KvType type) {
  const int rows = static_cast<int>(state.range(0)), tokens = static_cast<int>(state.range(1));
  EngineOptions options;
  options.device = name;
  options.threads = static_cast<int>(state.range(2));
  Result<std::unique_ptr<Device>> opened = open_device(options);
  if (!opened) return state.SkipWithError(opened.status().message().c_str());
  Device& device = **opened;
  WorkLimits limits;
  limits.rows = rows;
  limits.width = model.heads * model.head_size;
  limits.heads = model.heads;
  limits.head_size = model.head_size;
  limits.context = tokens;
  if (!device.reserve(limits)) return state.SkipWithError("reserve");

  const int page_size = device.default_page_size();
  const KvGroupSpec group{1, model.kv_heads, model.head_size, 0};
  const std::size_t slab = device.kv_layer_bytes(group, type, page_size);
  std::vector<PageId> pages(static_cast<std::size_t>((tokens + page_size - 1) / page_size));
  std::iota(pages.begin(), pages.end(), 0);
  // Zero pages: the time does not depend on the values.
  Result<std::unique_ptr<DeviceBuffer>> pool = device.allocate(slab * pages.size());
  if (!pool) return state.SkipWithError("allocate");
  std::vector<float> query(static_cast<std::size_t>(rows * limits.width), 0.5f), output(query);
  const SequenceRows sequence{0, rows, tokens - rows, pages.data(), static_cast<int>(pages.size())};

  PagedAttentionArgs args;
  args.sequences = {&sequence, 1};
  args.heads = model.heads;
  args.query = query.data();
  args.kv = {(*pool)->data(), slab, 0, type, page_size, model.kv_heads, model.head_size};
  args.scale = 1 / std::sqrt(static_cast<float>(model.head_size));
  args.output = output.data();
  for (auto _ : state) {
    if (!device.ops().paged_attention(device, args)) return state.SkipWithError("attention");
  }
  double pairs = 0;  // of a query token and a key that it sees
  for (int row = 0; row < rows; ++row) pairs += tokens - rows + row + 1;
  state.counters["GMAC/s"] = benchmark::Counter(2 * pairs * limits.width * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
  const cpu::MachinePeaks& peaks =
      peaks_of(*cpu::isa_from_name(std::string(name).substr(4)), options.threads);
  const bool pairs_of_bfloats = type == KvType::bf16 && peaks.bfloat_gmacs > 0;
  const double peak = pairs_of_bfloats ? peaks.bfloat_gmacs : peaks.float_gmacs;
  state.counters["of_peak"] = benchmark::Counter(2 * pairs * limits.width * 1e-9 / peak,
                                                 benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_read"] =
      benchmark::Counter(static_cast<double>(slab * pages.size()) * 1e-9 / peaks.read_gbytes,
                         benchmark::Counter::kIsIterationInvariantRate);
  state.counters["us/token"] = benchmark::Counter(
      rows * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void shapes(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    b->Args({1, 700, threads})->Args({1, 4000, threads})->Args({512, 512, threads});
  }
  b->UseRealTime();
}

BENCHMARK_CAPTURE(run, smollm2_avx512_f16, "cpu:avx512", kSmolLm2, KvType::f16)->Apply(shapes);
BENCHMARK_CAPTURE(run, smollm2_avx512_int8, "cpu:avx512", kSmolLm2, KvType::int8)->Apply(shapes);
BENCHMARK_CAPTURE(run, gemma3_avx512_f16, "cpu:avx512", kGemma3, KvType::f16)->Apply(shapes);
BENCHMARK_CAPTURE(run, smollm2_avx512bf16, "cpu:avx512bf16", kSmolLm2, KvType::bf16)->Apply(shapes);
BENCHMARK_CAPTURE(run, gemma3_avx512bf16, "cpu:avx512bf16", kGemma3, KvType::bf16)->Apply(shapes);
BENCHMARK_CAPTURE(run, smollm2_avx2_f16, "cpu:avx2", kSmolLm2, KvType::f16)->Apply(shapes);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
