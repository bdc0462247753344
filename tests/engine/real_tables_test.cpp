// Long prompts of real models on every table of kernels that this processor runs, with every KV type.
#include <iterator>
#include <optional>

#include "cpu/isa.h"
#include "cpu/row_choice.h"
#include "engine/real_runs.h"

namespace quire::testing {
namespace {

// Tokens of the steps that compute a prompt: most of it at once, the rest in uneven pieces that end
// within pages and on both sides of Gemma's window of 512.
constexpr int kChunks[] = {5, 450, 3, 70, 2, 33, 90};

// The request beside another whose answer goes on all the while, then again from the cache.
void check_table(Engine& engine, Request request, const Outcome& expected) {
  request.tenant = "batched";  // finds nothing of a run before
  Collector collector;
  submit(engine, sampled({1, 2, 3, 4, 5}, 1, static_cast<int>(std::size(kChunks)) + 1));
  const RequestId id = submit(engine, request);
  for (int tokens : kChunks) {
    auto report = engine.step({.tokens = tokens});
    REQUIRE(report.ok());
    collector.add(engine.events());
  }
  CHECK_FALSE(collector.saw(id));
  run_all(engine, collector);
  CHECK(collector.outcome(id) == expected);
  CHECK(collector.report(id).cached_tokens == 0);
  CHECK(run(engine, request) == expected);
}

// The tables agree with each other, but for keys and values of bfloat16 those that multiply them as
// such agree among themselves. The best table of either kind computes the prompt alone and at once.
void check_tables(const char* file, const char* golden, KvType kv, int page_size) {
  const Request request = sampled(long_golden(golden), 11, 2);
  std::optional<Outcome> expected[2];
  for (auto isa = std::rbegin(cpu::kIsas); isa != std::rend(cpu::kIsas); ++isa) {
    if (!cpu::supports(*isa)) continue;
    const std::string device = "cpu:" + std::string(cpu::isa_name(*isa));
    INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
    Engine engine = open_engine(repository_model(file), with(device, kv, 2, page_size));
    std::optional<Outcome>& outcome =
        expected[kv == KvType::bf16 && cpu::pair_kernels(*isa) != nullptr];
    if (!outcome) outcome = run(engine, request);
    check_table(engine, request, *outcome);
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
