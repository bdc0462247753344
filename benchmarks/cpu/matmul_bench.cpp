#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/isa.h"
#include "cpu/matmul.h"
#include "cpu/pack.h"

// Matrix products with every thread of the pool, over more weights than the caches hold. Beside
// each time: GMAC/s (10^9 multiply-adds per second), the share of the measured peak of vpdpbusd,
// GB/s of packed weights read, and the share of the measured read bandwidth.

namespace quire::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Machine {
  std::unique_ptr<ThreadPool> pool;
  Isa isa = best_isa();
  double peak_gmacs = 0;   // of vpdpbusd on all threads; 0: the processor has none
  double read_gbytes = 0;  // per second, all threads
};

#if defined(__x86_64__)
// Multiply-adds of one call: 12 independent chains of 64.
__attribute__((target("avx512f,avx512vnni"))) double vnni_loop(int rounds) {
  using Vector = int __attribute__((vector_size(64)));
  Vector sum[12] = {};
  Vector a = {1}, b = {2};
  asm volatile("" : "+v"(a), "+v"(b));
  for (int i = 0; i < rounds; ++i) {
    for (Vector& s : sum) asm volatile("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
  }
  for (Vector& s : sum) asm volatile("" : "+v"(s));
  return 12.0 * 64 * rounds;
}
#else
double vnni_loop(int) {
  return 0;
}
#endif

double measure_peak(ThreadPool& pool) {
  if (!supports(Isa::avx512)) return 0;
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::atomic<double> products{0};
    const auto start = Clock::now();
    auto body = [&](int, int) { products.fetch_add(vnni_loop(2000000)); };
    pool.run(body);
    best = std::max(best, products.load() / seconds_since(start) / 1e9);
  }
  return best;
}

double measure_bandwidth(ThreadPool& pool) {
  const std::size_t words = std::size_t{32} << 20;  // 256 MB
  PackArena arena;                                  // huge pages, as for the weights
  const PackBuffer buffer = arena.allocate(words * 8);
  if (!buffer.data()) return 0;
  std::memset(buffer.data(), 1, buffer.size());
  const std::uint64_t* data = reinterpret_cast<const std::uint64_t*>(buffer.data());
  double best = 0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto start = Clock::now();
    auto body = [&](int worker, int workers) {
      const std::size_t first =
          words * static_cast<std::size_t>(worker) / static_cast<std::size_t>(workers);
      const std::size_t last =
          words * static_cast<std::size_t>(worker + 1) / static_cast<std::size_t>(workers);
      std::uint64_t sums[8] = {};
      for (std::size_t i = first; i + 8 <= last; i += 8) {
        for (int lane = 0; lane < 8; ++lane) sums[lane] += data[i + static_cast<std::size_t>(lane)];
      }
      benchmark::DoNotOptimize(sums);
    };
    pool.run(body);
    best = std::max(best, static_cast<double>(words * 8) / seconds_since(start) / 1e9);
  }
  return best;
}

Machine& machine() {
  static Machine one = [] {
    Machine made;
    ThreadPoolOptions options;
    if (const char* threads = std::getenv("QUIRE_BENCH_THREADS"))
      options.threads = std::atoi(threads);
    options.spin_microseconds = 1000;
    made.pool = *ThreadPool::create(options);
    if (const char* name = std::getenv("QUIRE_BENCH_ISA"))
      made.isa = isa_from_name(name).value_or(made.isa);
    made.peak_gmacs = measure_peak(*made.pool);
    made.read_gbytes = measure_bandwidth(*made.pool);
    return made;
  }();
  return one;
}

struct Shape {
  DType type;
  int rows;
  int columns;
  Compute compute = Compute::automatic;
};

std::vector<std::byte> random_blocks(const Shape& shape) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(shape.rows) *
                               *row_bytes(shape.type, shape.columns));
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random() & 0x3f);  // no infinite scales
  return bytes;
}

TensorView view_of(const std::vector<std::byte>& bytes, const Shape& shape) {
  TensorView view;
  view.type = shape.type;
  view.shape = {shape.rows, shape.columns, 0, 0};
  view.dimensions = 2;
  view.bytes = bytes;
  return view;
}

void multiply_all(const Matrix& matrix, std::int64_t panels, const Activations& activations,
                  float* output, int rows) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t piece =
      std::max<std::int64_t>(2, panels / (machine().pool->size() * 8) / 2 * 2);
  auto body = [&](int, int) {
    for (std::int64_t first = next.fetch_add(piece); first < panels;
         first = next.fetch_add(piece)) {
      matmul_kernels(machine().isa)
          .multiply(matrix, activations, first, std::min(panels, first + piece), nullptr, output,
                    rows);
    }
  };
  machine().pool->run(body);
}

void prepare_all(const Activations& activations) {
  auto body = [&](int worker, int workers) {
    matmul_kernels(machine().isa)
        .prepare(activations, activations.rows * worker / workers,
                 activations.rows * (worker + 1) / workers);
  };
  machine().pool->run(body);
}

void run_matmul(benchmark::State& state, const Shape& shape, int tokens) {
  const auto stored = random_blocks(shape);
  const TensorView view = view_of(stored, shape);
  const std::size_t one = packed_matrix_bytes(shape.type, shape.rows, shape.columns, {},
                                              shape.compute, false, machine().isa);
  const std::size_t count =
      tokens >= 64 ? 1 : std::max<std::size_t>(1, (std::size_t{200} << 20) / one);
  PackArena arena;
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  for (std::size_t i = 0; i < count; ++i) {
    matrices.push_back(
        *pack_matrix(view, {}, shape.compute, false, machine().isa, *machine().pool, &arena));
  }
  std::vector<float> values(static_cast<std::size_t>(tokens) *
                            static_cast<std::size_t>(shape.columns));
  std::mt19937 random(2);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  std::vector<float> output(static_cast<std::size_t>(tokens) *
                            static_cast<std::size_t>(shape.rows));
  std::unique_ptr<std::byte[], void (*)(std::byte*)> storage(
      static_cast<std::byte*>(
          ::operator new[](activation_bytes(tokens, shape.columns), std::align_val_t(64))),
      [](std::byte* bytes) { ::operator delete[](bytes, std::align_val_t(64)); });
  const Activations activations{tokens, shape.columns, values.data(), storage.get()};
  std::size_t at = 0;
  for (auto _ : state) {
    prepare_all(activations);
    const auto& matrix = static_cast<const Matrix&>(*matrices[at]);
    multiply_all(matrix, (shape.rows + kPanelRows - 1) / kPanelRows, activations, output.data(),
                 shape.rows);
    at = (at + 1) % matrices.size();
  }
  using benchmark::Counter;
  const double macs = static_cast<double>(state.iterations()) * tokens * shape.rows * shape.columns;
  const double bytes = static_cast<double>(state.iterations()) * static_cast<double>(one);
  state.counters["GMAC/s"] = Counter(macs / 1e9, Counter::kIsRate);
  state.counters["GB/s"] = Counter(bytes / 1e9, Counter::kIsRate);
  if (machine().peak_gmacs > 0)
    state.counters["of_peak"] = Counter(macs / 1e9 / machine().peak_gmacs, Counter::kIsRate);
  state.counters["of_read"] = Counter(bytes / 1e9 / machine().read_gbytes, Counter::kIsRate);
}

void run_pack(benchmark::State& state, const Shape& shape) {
  const auto stored = random_blocks(shape);
  for (auto _ : state) {
    benchmark::DoNotOptimize(pack_matrix(view_of(stored, shape), {}, shape.compute, false,
                                         machine().isa, *machine().pool));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(stored.size()));
}

std::string shape_name(const Shape& shape) {
  return std::string(info(shape.type).name) + (shape.compute == Compute::f32 ? ":f32/" : "/") +
         std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
}

void register_all() {
  std::vector<Shape> shapes;
  for (const DType type :
       {DType::q4_1, DType::q8_0, DType::q5_0, DType::q4_k, DType::q6_k, DType::q4_0, DType::q5_1,
        DType::q5_k, DType::q2_k, DType::q3_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4,
        DType::f32, DType::f16, DType::bf16}) {
    shapes.push_back({type, 2048, 2048});
  }
  shapes.push_back({DType::q4_1, 2048, 2048, Compute::f32});
  shapes.push_back({DType::q4_1, 1536, 576});  // SmolLM2-135M's MLP
  shapes.push_back({DType::q4_1, 576, 1536});
  shapes.push_back({DType::q5_0, 2048, 640});  // Gemma-3-270M's
  for (const Shape& shape : shapes) {
    for (const int tokens : {1, 2, 4, 8, 16, 32, 512}) {
      benchmark::RegisterBenchmark(
          ("matmul/" + shape_name(shape) + "/tokens:" + std::to_string(tokens)).c_str(),
          [shape, tokens](benchmark::State& state) { run_matmul(state, shape, tokens); })
          ->UseRealTime();
    }
    benchmark::RegisterBenchmark(("pack/" + shape_name(shape)).c_str(),
                                 [shape](benchmark::State& state) { run_pack(state, shape); })
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace quire::cpu

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto& machine = quire::cpu::machine();
  std::printf("%s, %d threads: vpdpbusd peak %.0f GMAC/s, read %.1f GB/s\n",
              std::string(quire::cpu::isa_name(machine.isa)).c_str(), machine.pool->size(),
              machine.peak_gmacs, machine.read_gbytes);
  quire::cpu::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
