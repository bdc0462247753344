// One request in every way there is to compute it, on every table of kernels that this processor
// runs, with every KV type. The other tests take a part of this; the whole, most of whose time
// goes to the plain table, is
//   real_tables_tests "[whole]"
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>

#include "cpu/isa.h"
#include "cpu/row_choice.h"
#include "engine/real_runs.h"

namespace quire::testing {
namespace {

constexpr int kAnswer = 40;

// Every way but the one that `expected` was computed in: alone, at once, by one thread, in pages of
// 16.
void check_every_way(const std::string& path, const std::string& device, KvType kv,
                     const Request& request, const Outcome& expected) {
  {
    INFO("at once, by one thread");
    Engine engine = open_engine(path, with(device, kv, 1, 16));
    CHECK(run(engine, request) == expected);
  }
  for (int page_size : {8, 64}) {
    INFO("pages of " << page_size << ", two threads");
    Engine engine = open_engine(path, with(device, kv, 2, page_size));
    CHECK(run(engine, request) == expected);
  }
  Engine engine = open_engine(path, with(device, kv, 2, 16));
  check_chunks(engine, request, {1, 7}, expected);
  check_table(engine, request, expected);  // uneven chunks, batched, cached
  check_preempted(path, with(device, kv, 2, 16), request, expected);
}

void check_matrix(const char* file, const char* golden) {
  if (!cpu::supports(cpu::Isa::avx2) && !cpu::supports(cpu::Isa::neon)) {
    WARN("not tested: this program is compiled for AVX2 or AArch64");
    return;
  }
  const std::string path = repository_model(file);
  const Request request = sampled(long_golden(golden), 17, kAnswer);
  for (KvType kv : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8}) {
    // Whether keys and values of bfloat16 are multiplied as such: what the tables agree in.
    std::map<bool, Outcome> expected;
    for (auto isa = std::rbegin(cpu::kIsas); isa != std::rend(cpu::kIsas); ++isa) {
      if (!cpu::supports(*isa)) continue;
      const std::string device = "cpu:" + std::string(cpu::isa_name(*isa));
      INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
      const auto start = std::chrono::steady_clock::now();
      const bool pairs = kv == KvType::bf16 && cpu::pair_kernels(*isa) != nullptr;
      if (!expected.contains(pairs)) {
        Engine alone = open_engine(path, with(device, kv, 1, 16));
        expected[pairs] = run(alone, request);
      }
      check_every_way(path, device, kv, request, expected[pairs]);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      std::printf("%s on %s, KV type %d: done, %.0f s\n", file, device.c_str(),
                  static_cast<int>(kv), took.count());
      std::fflush(stdout);
    }
  }
}

}  // namespace

TEST_CASE("SmolLM2's long prompt has one answer, however and wherever it is computed", "[.whole]") {
  check_matrix(kSmolLm2, "smollm2.json");
}

TEST_CASE("Gemma 3's long prompt has one answer, however and wherever it is computed", "[.whole]") {
  check_matrix(kGemma3, "gemma3.json");
}

}  // namespace quire::testing
