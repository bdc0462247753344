#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/isa.h"
#include "cpu/matmul.h"
#include "cpu/pack.h"
#include "machine_peaks.h"

// Matrix products with every thread of the pool, over more weights than the caches hold. Beside
// each time: GMAC/s (10^9 multiply-adds per second), the share of the measured peak of the
// instruction that multiplies, GB/s of packed weights read, and the share of the measured read
// bandwidth.

namespace quire::cpu {
namespace {

struct Machine {
  std::unique_ptr<ThreadPool> pool;
  Isa isa = best_isa();
  MachinePeaks peaks;
};

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
    made.peaks = measure_peaks(made.isa, *made.pool);
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
  if (is_quantised(shape.type)) return bytes;
  // Between 0.5 and 2: numbers below the normal ones are slow on some processors.
  const std::size_t size = static_cast<std::size_t>(info(shape.type).block_bytes);
  for (std::size_t at = size - 1; at < bytes.size(); at += size) bytes[at] = std::byte{0x3f};
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
          .multiply(matrix, activations,
                    {first, std::min(panels, first + piece), 0, activations.rows}, nullptr,
                    output + first * kPanelRows, rows);
    }
  };
  machine().pool->run(body);
}

void prepare_all(const Activations& activations) {
  auto body = [&](int worker, int workers) {
    const int last = activations.rows * (worker + 1) / workers;
    for (int row = activations.rows * worker / workers; row < last; ++row) {
      matmul_kernels(machine().isa)
          .prepare(activations, row, 0, activations.columns,
                   activations.values + std::int64_t{row} * activations.columns);
    }
  };
  machine().pool->run(body);
}

// Of the instruction that multiplies matrices of that form.
double peak_of(MatmulForm form) {
  const MachinePeaks& peaks = machine().peaks;
  switch (form) {
    case MatmulForm::integer:
      return peaks.integer_gmacs;
    case MatmulForm::bfloat_pairs:
    case MatmulForm::bfloat_tiles:
      return peaks.bfloat_gmacs;
    case MatmulForm::plain:
    case MatmulForm::expanded:
      break;
  }
  return peaks.float_gmacs;
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
  const double peak = peak_of(static_cast<const Matrix&>(*matrices[0]).form());
  if (peak > 0) state.counters["of_peak"] = Counter(macs / 1e9 / peak, Counter::kIsRate);
  state.counters["of_read"] = Counter(bytes / 1e9 / machine().peaks.read_gbytes, Counter::kIsRate);
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

// One thread is measured by the processor's time: see seconds().
template <class Body>
void add(const std::string& name, Body body) {
  auto* registered = benchmark::RegisterBenchmark(name.c_str(), body);
  if (machine().pool->size() > 1) registered->UseRealTime();
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
  shapes.push_back({DType::q5_0, 2048, 640});                         // Gemma-3-270M's
  for (const DType type : {DType::q4_k, DType::q6_k, DType::q8_0}) {  // Qwen2.5-1.5B's
    shapes.push_back({type, 8960, 1536});
    shapes.push_back({type, 1536, 8960});
  }
  for (const Shape& shape : shapes) {
    for (const int tokens : {1, 2, 4, 8, 16, 32, 512}) {
      add("matmul/" + shape_name(shape) + "/tokens:" + std::to_string(tokens),
          [shape, tokens](benchmark::State& state) { run_matmul(state, shape, tokens); });
    }
    add("pack/" + shape_name(shape), [shape](benchmark::State& state) { run_pack(state, shape); });
  }
}

}  // namespace
}  // namespace quire::cpu

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto& machine = quire::cpu::machine();
  std::printf(
      "%s, %d threads: peaks of 8-bit products %.0f GMAC/s, bfloat16 %.0f, float32 %.0f, "
      "read %.1f GB/s\n",
      std::string(quire::cpu::isa_name(machine.isa)).c_str(), machine.pool->size(),
      machine.peaks.integer_gmacs, machine.peaks.bfloat_gmacs, machine.peaks.float_gmacs,
      machine.peaks.read_gbytes);
  quire::cpu::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
