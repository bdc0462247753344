// Identity on real models: long prompts, windows, many requests at once.
#include "cpu/isa.h"
#include "engine/real_runs.h"

namespace quire::testing {
namespace {

void check_identity(const char* file, const char* golden, const char* device, KvType kv) {
  const std::string path = repository_model(file);
  Engine reference = open_engine(path, with(device, kv, 1, 16));
  INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
  const Request request = sampled(long_golden(golden), 11, 6);
  const Outcome expected = run(reference, request);
  Collector warm;
  const RequestId again = submit(reference, request);
  run_all(reference, warm);
  CHECK(warm.outcome(again) == expected);
  CHECK(warm.report(again).cached_tokens == static_cast<int>(request.tokens.size()) - 1);

  Engine other = open_engine(path, with(device, kv, 2, 64));
  CHECK(run(other, request, {.tokens = 97}) == expected);

  Engine beside = open_engine(path, with(device, kv, 2, 8));
  Collector collector;
  Request neighbour = sampled(
      std::vector<std::int32_t>(request.tokens.begin() + 1, request.tokens.begin() + 300), 1, 12);
  submit(beside, neighbour);
  const RequestId id = submit(beside, request);
  run_all(beside, collector);
  CHECK(collector.outcome(id) == expected);
}

void check_cut(const char* file, const char* golden, const char* device, KvType kv) {
  INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
  const std::string path = repository_model(file);
  const Request request = sampled(long_golden(golden), 13, 80);
  const EngineOptions options = with(device, kv, 2, 16);
  Engine engine = open_engine(path, options);
  const Outcome expected = run(engine, request);
  check_chunks(engine, request, {1, 7}, expected);
  check_preempted(path, options, request, expected);
}

}  // namespace

TEST_CASE("long prompts are the same in chunks, from the cache, in a batch, at any page size",
          "[real]") {
  for (KvType kv : {KvType::f16, KvType::f32, KvType::bf16, KvType::int8}) {
    check_identity(kSmolLm2, "smollm2.json", "cpu", kv);
    check_identity(kGemma3, "gemma3.json", "cpu", kv);
  }
}

TEST_CASE("a long prompt in chunks of 1 and 7, or preempted, has the answer of one at once",
          "[real]") {
  for (KvType kv : {KvType::f16, KvType::f32, KvType::bf16, KvType::int8}) {
    check_cut(kSmolLm2, "smollm2.json", "cpu", kv);
    check_cut(kGemma3, "gemma3.json", "cpu", kv);
  }
  if (cpu::supports(cpu::Isa::avx2)) check_cut(kSmolLm2, "smollm2.json", "cpu:avx2", KvType::int8);
}

// Every table with every KV type: real_tables_test.cpp and real_matrix_test.cpp, with the plain one
// compiled to be faster.
TEST_CASE("the plain table of kernels gives a long prompt the same answer as the best", "[real]") {
  const std::string path = repository_model(kSmolLm2);
  const Request request = sampled(long_golden("smollm2.json"), 11, 2);
  Engine best = open_engine(path, with("cpu", KvType::f16, 2, 16));
  Engine plain = open_engine(path, with("cpu:scalar", KvType::f16, 2, 16));
  check_table(plain, request, run(best, request));
}

TEST_CASE("32 requests at once give the text of each alone", "[real]") {
  Engine engine = open_engine(repository_model(kSmolLm2), with("cpu", KvType::f16, 2, 16));
  const char* const subjects[] = {"rivers", "birds", "colours", "planets",
                                  "metals", "trees", "games",   "winds"};
  std::vector<Request> requests;
  for (int i = 0; i < 32; ++i) {
    Request request;
    request.messages = {
        {"user", "Name " + std::to_string(2 + i / 8) + " " + subjects[i % 8] + "."}};
    request.max_tokens = 24;
    request.sampling.seed = i;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    requests.push_back(request);
  }
  Collector together;
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(submit(engine, request));
  run_all(engine, together);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO("request " << i);
    CHECK(together.outcome(ids[i]) == run(engine, requests[i]));
  }
}

}  // namespace quire::testing
