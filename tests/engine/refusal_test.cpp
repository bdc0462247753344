// What a request or an option cannot be: each is refused with a message that names it with both
// numbers, and the engine goes on.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "check_contains.h"
#include "engine/runs.h"

namespace quire::testing {
namespace {

void check_refused(Engine& engine, Request request, const char* part, StatusCode code) {
  auto id = engine.submit(std::move(request));
  INFO("wanted a refusal that says: " << part);
  REQUIRE_FALSE(id.ok());
  CHECK(id.status().code() == code);
  check_contains(id.status().message(), part);
  CHECK_FALSE(engine.has_work());
}

// `items` is one name, or several with " or " between them.
void check_names_one(const std::string& message, std::string items) {
  bool named = false;
  INFO(message << " should name " << items);
  for (std::size_t cut = 0; cut != std::string::npos;
       items = cut == std::string::npos ? "" : items.substr(cut + 4)) {
    cut = items.find(" or ");
    named = named || message.find(items.substr(0, cut)) != std::string::npos;
  }
  CHECK(named);
}

Status open_status(EngineOptions options) {
  auto engine = Engine::open(data_path("tiny/llama/model.gguf"), options);
  CHECK_FALSE(engine.ok());
  return engine.status();
}

}  // namespace

TEST_CASE("impossible parameters are refused and the next request works", "[refusal]") {
  Engine engine = tiny();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const StatusCode wrong = StatusCode::invalid_argument;
  auto with = [](auto change) {
    Request request;
    request.tokens = {1, 2, 3};
    change(request);
    return request;
  };
  check_refused(engine, with([&](Request& r) { r.sampling.temperature = nan; }),
                "temperature is nan", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.temperature = infinity; }),
                "temperature is inf", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.temperature = -0.5f; }),
                "temperature is -0.5", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.top_p = 0.0f; }), "top_p is 0", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.top_p = 1.5f; }), "top_p is 1.5", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.top_k = -1; }), "top_k is -1", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.min_p = nan; }), "min_p is nan", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.repetition_penalty = 0.0f; }),
                "repetition_penalty", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.frequency_penalty = nan; }),
                "frequency_penalty", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.presence_penalty = -infinity; }),
                "presence_penalty is -inf", wrong);
  check_refused(engine, with([&](Request& r) {
                  r.sampling.logit_bias = {{191222, 1.0f}};
                }),
                "191222", wrong);
  check_refused(engine, with([&](Request& r) {
                  r.sampling.logit_bias = {{3, nan}};
                }),
                "logit_bias is nan", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.banned_tokens = {-1}; }), "token -1",
                wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.allowed_tokens = {320}; }),
                "token 320, wanted 0 to 319", wrong);
  check_refused(engine, with([&](Request& r) { r.sampling.min_tokens = -2; }), "min_tokens is -2",
                wrong);
  check_refused(engine, with([&](Request& r) { r.stop_token_ids = {1 << 20}; }), "1048576", wrong);
  check_refused(engine, with([&](Request& r) { r.n = 0; }), "n is 0, wanted 1 to 64", wrong);
  check_refused(engine, with([&](Request& r) { r.n = 1 << 30; }), "n is 1073741824", wrong);
  check_refused(engine, with([&](Request& r) { r.max_tokens = -1; }), "max_tokens is -1", wrong);
  check_refused(engine, with([&](Request& r) { r.max_tokens = std::numeric_limits<int>::max(); }),
                "max_tokens is 2147483647", wrong);
  check_refused(engine, with([&](Request& r) {
                  r.tokens.clear();
                  r.template_json = "{";
                }),
                "template variables: JSON", StatusCode::malformed);
  check_refused(engine, with([&](Request& r) {
                  r.tokens.clear();
                  r.template_json = std::string(1000000, '[');
                }),
                "nested deeper than", StatusCode::malformed);
  check_refused(engine, with([&](Request& r) { r.logprobs = 321; }),
                "logprobs is 321, wanted 0 to 320", wrong);
  check_refused(engine, with([&](Request& r) { r.prompt_logprobs = -7; }), "prompt_logprobs is -7",
                wrong);
  check_refused(engine, with([&](Request& r) { r.tokens = {5, 320}; }), "token 320", wrong);
  check_refused(engine, with([&](Request& r) { r.tokens = {-5}; }), "token -5", wrong);
  check_refused(engine, with([&](Request& r) { r.stop = {""}; }), "stop is a string of 0 bytes",
                wrong);
  check_refused(engine, with([&](Request& r) { r.stop.assign(5, std::string(4000, 's')); }),
                "stop is 20000 bytes in all, wanted at most 16384", wrong);
  check_refused(engine, with([&](Request& r) { r.prompt = "both"; }),
                "2 of prompt, tokens and messages", wrong);

  Request good;
  good.tokens = {1, 2, 3};
  good.max_tokens = 4;
  good.sampling.ignore_eos = true;
  CHECK(generate(engine, good).choices[0].tokens.size() == 4);
}

TEST_CASE("an empty prompt of a model without a first token is refused", "[refusal]") {
  Engine engine = tiny();  // the tiny models add no BOS
  check_refused(engine, {}, "the prompt is empty", StatusCode::invalid_argument);
}

TEST_CASE("an empty prompt of a model with a first token is that token", "[refusal]") {
  std::string bytes = read_text(data_path("tiny/llama/model.gguf"));
  const std::string key = "tokenizer.ggml.add_bos_token";  // a bool: its type, 4 bytes, and value
  const std::size_t value = bytes.find(key) + key.size() + 4;
  REQUIRE(value < bytes.size());
  bytes[value] = 1;
  Engine engine = open_engine(MemoryModel{std::as_bytes(std::span(bytes))}, small());
  Request empty = sampled({}, 5);
  Request first = sampled({312}, 5);  // <|begin|>, the tiny models' bos
  const Generation answer = generate(engine, empty);
  CHECK(answer.report.prompt_tokens == 1);
  CHECK(answer.choices[0].tokens.size() == 20);
  CHECK(outcome_of(answer.choices[0]) == outcome_of(generate(engine, first).choices[0]));
}

TEST_CASE("prompts of context - 1, context and context + 1 tokens", "[refusal]") {
  EngineOptions options;
  options.context = 64;
  options.threads = 1;
  Engine engine = open_engine(data_path("tiny/llama/model.gguf"), options);
  Request request;
  request.sampling.ignore_eos = true;
  request.tokens.assign(63, 7);
  const Generation answer = generate(engine, request);
  CHECK(answer.choices[0].tokens.size() == 1);
  CHECK(answer.choices[0].finish_reason == FinishReason::length);
  request.tokens.assign(64, 7);
  check_refused(engine, request, "prompt of 64 tokens and 1 to generate, context is 64",
                StatusCode::resource_exhausted);
  request.tokens.assign(65, 7);
  check_refused(engine, request, "prompt of 65 tokens and 1 to generate, context is 64",
                StatusCode::resource_exhausted);
  request.tokens.assign(60, 7);
  request.max_tokens = 5;
  check_refused(engine, request, "prompt of 60 tokens and 5 to generate, context is 64",
                StatusCode::resource_exhausted);
}

TEST_CASE("a full queue refuses with both numbers", "[refusal]") {
  EngineOptions options;
  options.threads = 1;
  options.scheduling.max_queued = 2;
  Engine engine = open_engine(data_path("tiny/llama/model.gguf"), options);
  Request request;
  request.tokens = {1, 2};
  request.max_tokens = 2;
  CHECK(engine.submit(request).ok());
  CHECK(engine.submit(request).ok());
  auto third = engine.submit(request);
  REQUIRE_FALSE(third.ok());
  CHECK(third.status().code() == StatusCode::resource_exhausted);
  check_contains(third.status().message(), "2 requests wait, at most 2 may");
  Collector collector;
  run_all(engine, collector);
  CHECK(engine.submit(request).ok());
}

TEST_CASE("budgets that hold nothing are refused with both numbers", "[refusal]") {
  EngineOptions options;
  options.kv_bytes = 1000;
  Status status = open_status(options);
  CHECK(status.code() == StatusCode::resource_exhausted);
  check_contains(status.message(), "kv_bytes 1000 holds ");
  check_contains(status.message(), "at least one page of 16 is needed");
  options = {};
  options.memory_bytes = 4096;
  status = open_status(options);
  CHECK(status.code() == StatusCode::resource_exhausted);
  check_contains(status.message(), "memory_bytes 4096 is too small");
}

TEST_CASE("impossible options are refused by name", "[refusal]") {
  auto refused = [](auto change, const char* part) {
    EngineOptions options;
    change(options);
    check_contains(open_status(options).message(), part);
  };
  refused([](EngineOptions& o) { o.scheduling.mixed_pass_time = std::chrono::milliseconds(-1); },
          "mixed_pass_time is -1, wanted at least 0");
  refused([](EngineOptions& o) { o.scheduling.max_step_tokens = 79; },
          "max_step_tokens is 79, wanted 80");
  refused([](EngineOptions& o) { o.scheduling.max_step_tokens = 65537; },
          "max_step_tokens is 65537, wanted 80 (max_running + 16) to 65536");
  refused([](EngineOptions& o) { o.scheduling.max_running = 0; }, "max_running is 0");
  refused([](EngineOptions& o) { o.scheduling.max_running = 4097; },
          "max_running is 4097, wanted 1 to 4096");
  refused([](EngineOptions& o) { o.scheduling.max_queued = 0; }, "max_queued is 0");
  refused([](EngineOptions& o) { o.scheduling.max_bypasses = -1; }, "max_bypasses is -1");
  refused([](EngineOptions& o) { o.cache.page_size = 12; },
          "page_size is 12, wanted 8, 16, 32, 64 or 128");
  refused([](EngineOptions& o) { o.context = 513; }, "context is 513, wanted 0 to 512");
  refused([](EngineOptions& o) { o.context = -1; }, "context is -1");
  refused([](EngineOptions& o) { o.threads = -1; }, "threads is -1");
  refused([](EngineOptions& o) { o.threads = 1025; }, "threads is 1025");
  refused([](EngineOptions& o) { o.cpu.spin_microseconds = -1; }, "spin_microseconds is -1");
  refused([](EngineOptions& o) { o.cache.type = static_cast<KvType>(99); }, "cache.type is 99");
  refused([](EngineOptions& o) { o.cpu.compute = static_cast<Compute>(-1); }, "cpu.compute is -1");
  refused(
      [](EngineOptions& o) {
        o.executor.threads = 0;
        o.executor.post = [](void (*task)(void*), void* argument) { task(argument); };
      },
      "executor.threads is 0");
  refused([](EngineOptions& o) { o.device = "tpu"; }, "tpu");
  refused([](EngineOptions& o) { o.device = "cuda:99"; }, "cuda:99");
}

TEST_CASE("malformed files fail to open, or fail their request, and name what is wrong",
          "[refusal]") {
  const Json manifest = read_json(data_path("tiny/malformed/manifest.json"));
  const JsonArray& files =
      manifest.array() ? *manifest.array() : *member(manifest, "files").array();
  for (const Json& entry : files) {
    const std::string file = *member(entry, "file").string();
    const std::string expect = *member(entry, "expect").string();
    INFO(file << ": " << *member(entry, "wrong").string());
    EngineOptions options;
    options.threads = 1;
    auto engine = Engine::open(data_path("tiny/malformed/" + file), options);
    if (!engine) {
      CHECK_FALSE(expect == "request_error");
      INFO(engine.status().message());
      check_contains(engine.status().message(), file);
      const Json* item = entry.find("item");
      if (item && item->string()) check_names_one(engine.status().message(), *item->string());
      continue;
    }
    CHECK(expect != "load_error");
    Request request;
    request.tokens = {1, 2, 3};
    request.max_tokens = 4;
    auto answer = engine->generate(request);
    if (expect == "request_error" || expect == "load_error_or_request_error")
      CHECK_FALSE(answer.ok());
  }
}

TEST_CASE("a stored type that cannot be read matters only for tensors that are needed",
          "[refusal]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("quire_dtype_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::copy(data_path("tiny/llama"), folder, fs::copy_options::recursive);
  const std::string good = read_text((folder / "model.safetensors").string());
  std::uint64_t length = 0;
  std::memcpy(&length, good.data(), sizeof length);
  const std::string header = good.substr(8, length), data = good.substr(8 + length);
  const auto open_with = [&](std::string new_header, const std::string& new_data) {
    const std::uint64_t new_length = new_header.size();
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&new_length), sizeof new_length);
    file << new_header << new_data;
    file.close();
    return Engine::open(folder.string(), small());
  };

  // One more tensor, which nothing needs.
  const std::string ids = fmt::format(R"(,"position_ids":{{"dtype":"I64","shape":[2],)"
                                      R"("data_offsets":[{},{}]}}}})",
                                      data.size(), data.size() + 16);
  const std::string trimmed = header.substr(0, header.rfind('}'));
  auto with_more = open_with(trimmed + ids, data + std::string(16, 'i'));
  INFO(with_more.status().message());
  CHECK(with_more.ok());

  // The head, which has a second way to be found, and the embeddings.
  for (const std::string name : {"lm_head.weight", "model.embed_tokens.weight"}) {
    INFO(name);
    std::string changed = header;
    const std::size_t at = changed.find("\"dtype\":\"", changed.find("\"" + name + "\"")) + 9;
    const std::size_t end = changed.find('"', at);
    changed.replace(at, end - at, "F64");
    auto refused = open_with(changed, data);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == StatusCode::unsupported);
    check_contains(refused.status().message(), "tensor " + name + ": dtype F64");
  }
  fs::remove_all(folder);
}

TEST_CASE("an unknown architecture is named, with the list of the known", "[refusal]") {
  std::string bytes = read_text(data_path("tiny/llama/model.gguf"));
  const std::size_t at = bytes.find("llama");
  bytes.replace(at, 5, "mamba");
  auto engine = Engine::open(MemoryModel{std::as_bytes(std::span(bytes.data(), bytes.size()))});
  REQUIRE_FALSE(engine.ok());
  CHECK(engine.status().code() == StatusCode::unsupported);
  for (const char* part :
       {"\"mamba\"", "llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "smollm3", "granite"}) {
    check_contains(engine.status().message(), part);
  }
}

}  // namespace quire::testing
