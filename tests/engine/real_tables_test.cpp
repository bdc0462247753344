// Long prompts of real models on every table of kernels that this processor runs, with every KV
// type; real_matrix_test.cpp has the rest.
#include <iterator>
#include <optional>
#include <string>

#include "cpu/isa.h"
#include "cpu/row_choice.h"
#include "engine/real_runs.h"

namespace quire::testing {
namespace {

// The tables agree with each other, but for keys and values of bfloat16 those that multiply them as
// such agree among themselves. The best table of either kind computes the prompt alone and at once;
// every table has its own page size, from `page_size` on, and all but the plain one have one thread
// and two in turn.
void check_tables(const char* file, const char* golden, KvType kv, int page_size) {
  if (!cpu::supports(cpu::Isa::avx2) && !cpu::supports(cpu::Isa::neon)) {
    WARN("not tested: this program is compiled for AVX2 or AArch64");
    return;
  }
  const Request request = sampled(long_golden(golden), 11, 2);
  std::optional<Outcome> expected[2];
  int threads = 2;
  for (auto isa = std::rbegin(cpu::kIsas); isa != std::rend(cpu::kIsas); ++isa) {
    if (!cpu::supports(*isa)) continue;
    const std::string device = "cpu:" + std::string(cpu::isa_name(*isa));
    INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
    if (*isa == cpu::Isa::scalar) threads = 2;
    Engine engine = open_engine(repository_model(file), with(device, kv, threads, page_size));
    std::optional<Outcome>& outcome =
        expected[kv == KvType::bf16 && cpu::pair_kernels(*isa) != nullptr];
    if (!outcome) outcome = run(engine, request);
    check_table(engine, request, *outcome);
    if (*isa != cpu::Isa::scalar) {  // which would take minutes
      check_chunks(engine, request, {7}, *outcome);
    }
    page_size = page_size == 64 ? 8 : 2 * page_size;
    threads = 3 - threads;
  }
}

}  // namespace

TEST_CASE("every table of kernels gives SmolLM2's long prompt the same answer", "[real]") {
  check_tables(kSmolLm2, "smollm2.json", KvType::f32, 16);
  check_tables(kSmolLm2, "smollm2.json", KvType::f16, 64);
  check_tables(kSmolLm2, "smollm2.json", KvType::bf16, 8);
  check_tables(kSmolLm2, "smollm2.json", KvType::int8, 32);
}

TEST_CASE("every table of kernels gives Gemma 3's long prompt the same answer", "[real]") {
  check_tables(kGemma3, "gemma3.json", KvType::f32, 64);
  check_tables(kGemma3, "gemma3.json", KvType::f16, 16);
  check_tables(kGemma3, "gemma3.json", KvType::bf16, 32);
  check_tables(kGemma3, "gemma3.json", KvType::int8, 8);
}

}  // namespace quire::testing
