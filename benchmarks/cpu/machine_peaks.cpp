#include "machine_peaks.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "cpu/pack_buffer.h"

namespace quire::cpu {
namespace {

// Multiply-adds or bytes of `work` per nanosecond, the best of several runs.
template <class Work>
double best_rate(int repeats, Work&& work, ThreadPool& pool) {
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double start = seconds(pool);
    const double done = work();
    best = std::max(best, done / (seconds(pool) - start) / 1e9);
  }
  return best;
}

// Multiply-adds done by a loop of so many rounds.
using Loop = double (*)(int rounds);

#if defined(__x86_64__)
// Twelve independent chains of an instruction with three vector operands, `macs` products each.
#define QUIRE_VECTOR_LOOP(name, bytes, features, instruction, macs)                              \
  __attribute__((target(features))) double name(int rounds) {                                    \
    using Vector = int __attribute__((vector_size(bytes)));                                      \
    Vector sum[12] = {};                                                                         \
    Vector a = {1}, b = {2};                                                                     \
    asm volatile("" : "+v"(a), "+v"(b));                                                         \
    for (int i = 0; i < rounds; ++i) {                                                           \
      for (Vector & s : sum) asm volatile(instruction " %2, %1, %0" : "+v"(s) : "v"(a), "v"(b)); \
    }                                                                                            \
    for (Vector & s : sum) asm volatile("" : "+v"(s));                                           \
    return 12.0 * macs * rounds;                                                                 \
  }
QUIRE_VECTOR_LOOP(vpdpbusd_512, 64, "avx512f,avx512vnni", "vpdpbusd", 64)
QUIRE_VECTOR_LOOP(fma_512, 64, "avx512f", "vfmadd231ps", 16)
QUIRE_VECTOR_LOOP(vdpbf16ps_512, 64, "avx512f,avx512bf16", "vdpbf16ps", 32)
QUIRE_VECTOR_LOOP(vpdpbusd_256, 32, "avx2,avxvnni", "%{vex%} vpdpbusd", 32)
QUIRE_VECTOR_LOOP(vpmaddubsw_256, 32, "avx2", "vpmaddubsw", 32)
QUIRE_VECTOR_LOOP(fma_256, 32, "avx2,fma", "vfmadd231ps", 8)
#undef QUIRE_VECTOR_LOOP

struct alignas(64) TileShapes {
  std::uint8_t bytes[64];
};

// Eight full tiles: four independent sums.
TileShapes full_tiles() {
  TileShapes shapes = {};
  shapes.bytes[0] = 1;
  for (int tile = 0; tile < 8; ++tile) {
    shapes.bytes[16 + 2 * tile] = 64;
    shapes.bytes[48 + tile] = 16;
  }
  return shapes;
}

double tdpbssd(int rounds) {
  const TileShapes shapes = full_tiles();
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  for (int i = 0; i < rounds / 16; ++i) {
    asm volatile(
        "tdpbssd %tmm5, %tmm4, %tmm0\n tdpbssd %tmm6, %tmm4, %tmm1\n"
        "tdpbssd %tmm5, %tmm7, %tmm2\n tdpbssd %tmm6, %tmm7, %tmm3");
  }
  asm volatile("tilerelease");
  return 4.0 * 16 * 16 * 64 * (rounds / 16);
}

double tdpbf16ps(int rounds) {
  const TileShapes shapes = full_tiles();
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  for (int i = 0; i < rounds / 16; ++i) {
    asm volatile(
        "tdpbf16ps %tmm5, %tmm4, %tmm0\n tdpbf16ps %tmm6, %tmm4, %tmm1\n"
        "tdpbf16ps %tmm5, %tmm7, %tmm2\n tdpbf16ps %tmm6, %tmm7, %tmm3");
  }
  asm volatile("tilerelease");
  return 4.0 * 16 * 16 * 32 * (rounds / 16);
}
#endif

struct Loops {
  Loop integers = nullptr, floats = nullptr, bfloats = nullptr;
};

Loops loops_of(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::scalar:
      return {};
    case Isa::avx2:
      return {vpmaddubsw_256, fma_256, nullptr};
    case Isa::avx_vnni:
      return {vpdpbusd_256, fma_256, nullptr};
    case Isa::avx512:
      return {vpdpbusd_512, fma_512, nullptr};
    case Isa::avx512_bf16:
      return {vpdpbusd_512, fma_512, vdpbf16ps_512};
    case Isa::amx_int8:
      return {tdpbssd, fma_512, tdpbf16ps};
    case Isa::amx:
      return {vpdpbusd_512, fma_512, tdpbf16ps};
    case Isa::neon:
    case Isa::dotprod:
    case Isa::i8mm:
      return {};
  }
#endif
  static_cast<void>(isa);
  return {};
}

double measure_loop(Loop loop, ThreadPool& pool) {
  if (!loop) return 0;
  auto work = [&] {
    std::atomic<double> products{0};
    auto body = [&](int, int) { products.fetch_add(loop(2000000)); };
    pool.run(body);
    return products.load();
  };
  return best_rate(5, work, pool);
}

double measure_reading(ThreadPool& pool) {
  const std::size_t words = std::size_t{32} << 20;  // 256 MB
  PackArena arena;                                  // huge pages, as for the weights
  const PackBuffer buffer = arena.allocate(words * 8);
  if (!buffer.data()) return 0;
  std::memset(buffer.data(), 1, buffer.size());
  const std::uint64_t* data = reinterpret_cast<const std::uint64_t*>(buffer.data());
  auto work = [&] {
    auto body = [&](int worker, int workers) {
      const std::size_t first =
          words * static_cast<std::size_t>(worker) / static_cast<std::size_t>(workers);
      const std::size_t last =
          words * static_cast<std::size_t>(worker + 1) / static_cast<std::size_t>(workers);
      std::uint64_t sums[8] = {};
      for (std::size_t i = first; i + 8 <= last; i += 8) {
        __builtin_prefetch(data + i + 512);
        for (int lane = 0; lane < 8; ++lane) sums[lane] += data[i + static_cast<std::size_t>(lane)];
      }
      benchmark::DoNotOptimize(sums);
    };
    pool.run(body);
    return static_cast<double>(words * 8);
  };
  return best_rate(8, work, pool);
}

}  // namespace

double seconds(const ThreadPool& pool) {
  if (pool.size() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

MachinePeaks measure_peaks(Isa isa, ThreadPool& pool) {
  const Loops loops = loops_of(isa);
  return {measure_loop(loops.integers, pool), measure_loop(loops.floats, pool),
          measure_loop(loops.bfloats, pool), measure_reading(pool)};
}

}  // namespace quire::cpu
