// Identity on real models: long prompts, windows, many requests at once.
#include "engine/runs.h"

namespace quire::testing {
namespace {

constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kGemma3 = "gemma-3-270m-q4_k_m.gguf";

// The golden prompt of about 700 tokens, past Gemma's window of 512.
std::vector<std::int32_t> long_golden(const char* golden) {
  std::vector<std::int32_t> longest;
  const Json expected = read_json(data_path(std::string("model/") + golden));
  for (const Json& prompt : *member(expected, "prompts").array()) {
    std::vector<std::int32_t> ids = ids_of(member(prompt, "ids"));
    if (ids.size() > longest.size()) longest = std::move(ids);
  }
  return longest;
}

EngineOptions with(const char* device, KvType kv, int threads, int page_size) {
  EngineOptions options;
  options.device = device;
  options.cache.type = kv;
  options.cache.page_size = page_size;
  options.threads = threads;
  options.context = 1024;
  return options;
}

Outcome run(Engine& engine, const Request& request, const StepLimits& limits = {}) {
  Collector collector;
  const RequestId id = submit(engine, request);
  run_all(engine, collector, limits);
  return collector.outcome(id);
}

void check_identity(const char* file, const char* golden, const char* device, KvType kv) {
  const std::string path = repository_model(file);
  auto reference = Engine::open(path, with(device, kv, 1, 16));
  if (reference.status().code() == StatusCode::unsupported) return;  // not on this processor
  INFO(reference.status().message());
  REQUIRE(reference.ok());
  INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
  const Request request = sampled(long_golden(golden), 11, 6);
  const Outcome expected = run(*reference, request);
  const Outcome warm = run(*reference, request);
  CHECK(warm == expected);

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

// The least that compares an answer computed at once, in one chunk, with the same in small chunks
// beside a neighbour, and then from the cache: one engine, two prefills.
void check_identity_briefly(const char* file, const char* golden, const char* device, KvType kv) {
  auto engine = Engine::open(repository_model(file), with(device, kv, 2, 16));
  if (engine.status().code() == StatusCode::unsupported) return;  // not on this processor
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  INFO(file << " on " << device << ", KV type " << static_cast<int>(kv));
  Request request = sampled(long_golden(golden), 11, 3);
  request.tenant = "alone";
  const Outcome expected = run(*engine, request);
  request.tenant = "batched";  // finds nothing of the first
  Collector collector;
  submit(*engine, sampled({1, 2, 3, 4, 5}, 1, 110));
  const RequestId id = submit(*engine, request);
  run_all(*engine, collector, {.tokens = 8});  // one of the neighbour's, seven of the prompt
  CHECK(collector.outcome(id) == expected);
  CHECK(collector.report(id).cached_tokens == 0);
  CHECK(run(*engine, request) == expected);
}

}  // namespace

TEST_CASE("long prompts are the same in chunks, from the cache, in a batch, at any page size",
          "[real]") {
  for (KvType kv : {KvType::f16, KvType::f32, KvType::bf16, KvType::int8}) {
    check_identity(kSmolLm2, "smollm2.json", "cpu", kv);
    check_identity(kGemma3, "gemma3.json", "cpu", kv);
  }
  check_identity(kSmolLm2, "smollm2.json", "cpu:avx2", KvType::f16);
  check_identity(kGemma3, "gemma3.json", "cpu:avx2", KvType::f16);
}

// The reference table takes minutes for each of these prompts; the tiny models stand for it.
TEST_CASE("every KV type on AVX2 gives long prompts the same in chunks and in a batch", "[real]") {
  check_identity_briefly(kSmolLm2, "smollm2.json", "cpu:avx2", KvType::f32);
  check_identity_briefly(kSmolLm2, "smollm2.json", "cpu:avx2", KvType::bf16);
  check_identity_briefly(kGemma3, "gemma3.json", "cpu:avx2", KvType::int8);
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
