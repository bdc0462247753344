// The same request gives the same bits, whatever runs beside it and however it is computed.
#include <string>
#include <vector>

#include "cpu/isa.h"
#include "emulated.h"
#include "engine/runs.h"

namespace quire::testing {
namespace {

struct Setting {
  std::string model;  // tiny folder
  std::string device;
  KvType kv;
};

std::string name(const Setting& s) {
  return s.model + " on " + s.device + ", KV type " + std::to_string(static_cast<int>(s.kv));
}

// Every table of kernels that this processor runs; emulated, the best one, and for the second model
// one KV type.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* model : {"llama", "gemma3"}) {
    for (cpu::Isa isa : cpu::kIsas) {
      if (!cpu::supports(isa) || (kEmulated && isa != cpu::best_isa())) continue;
      for (KvType kv : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8}) {
        if (kEmulated && model != std::string("llama") && kv != KvType::f16) continue;
        all.push_back({model, "cpu:" + std::string(cpu::isa_name(isa)), kv});
      }
    }
  }
  return all;
}

Engine open(const Setting& s, int threads = 1, int page_size = 16, std::size_t pages = 0) {
  EngineOptions options;
  options.device = s.device;
  options.cache.type = s.kv;
  options.cache.page_size = page_size;
  options.threads = threads;
  options.scheduling.max_running = 16;
  options.scheduling.max_step_tokens = 128;
  const std::string path = data_path("tiny/" + s.model + "/model.gguf");
  if (pages > 0) {
    auto need = Engine::estimate(path, options);
    REQUIRE(need.ok());
    options.kv_bytes = pages * static_cast<std::size_t>(page_size) * need->kv_bytes_per_token;
  }
  return open_engine(path, options);
}

// Alone in a fresh engine of one thread, in one chunk.
Outcome alone(const Setting& s, const Request& request) {
  Engine engine = open(s);
  Collector collector;
  const RequestId id = submit(engine, request);
  run_all(engine, collector);
  return collector.outcome(id);
}

std::vector<Request> requests(const std::string& model) {
  const std::vector<std::int32_t> prompt = long_prompt(model);
  std::vector<Request> list;
  for (std::size_t length : {1, 15, 16, 17, 40, 96}) {
    list.push_back(sampled({prompt.begin(), prompt.begin() + length}, 100 + length));
  }
  return list;
}

}  // namespace

TEST_CASE("batched equals alone, at 1 and 2 threads", "[identity]") {
  for (const Setting& s : settings()) {
    INFO(name(s));
    const std::vector<Request> all = requests(s.model);
    std::vector<Outcome> expected;
    for (const Request& request : all) expected.push_back(alone(s, request));
    for (int threads : {1, 2}) {
      Engine engine = open(s, threads);
      Collector collector;
      std::vector<RequestId> ids;
      for (const Request& request : all) ids.push_back(submit(engine, request));
      run_all(engine, collector);
      for (std::size_t i = 0; i < ids.size(); ++i) CHECK(collector.outcome(ids[i]) == expected[i]);
    }
  }
}

TEST_CASE("chunks of 1, 7 and all tokens are equal", "[identity]") {
  for (const Setting& s : settings()) {
    INFO(name(s));
    const Request request = requests(s.model).back();
    const Outcome expected = alone(s, request);
    for (int tokens : {1, 7, 33}) {
      Engine engine = open(s);
      Collector collector;
      const RequestId id = submit(engine, request);
      run_all(engine, collector, {.tokens = tokens});
      CHECK(collector.outcome(id) == expected);
    }
  }
}

TEST_CASE("page sizes 8, 16 and 64 are equal", "[identity]") {
  for (const Setting& s : settings()) {
    INFO(name(s));
    const Request request = requests(s.model).back();
    const Outcome expected = alone(s, request);
    for (int page_size : {8, 64}) {
      Engine engine = open(s, 2, page_size);
      Collector collector;
      const RequestId id = submit(engine, request);
      run_all(engine, collector);
      CHECK(collector.outcome(id) == expected);
    }
  }
}

TEST_CASE("cached equals cold, with exact counts of cached tokens", "[identity]") {
  for (const Setting& s : settings()) {
    INFO(name(s));
    const Request request = requests(s.model).back();  // 96 tokens: 6 pages of 16
    Engine engine = open(s);
    Collector collector;
    const RequestId cold = submit(engine, request);
    run_all(engine, collector);
    CHECK(collector.report(cold).cached_tokens == 0);
    const RequestId warm = submit(engine, request);
    run_all(engine, collector);
    CHECK(collector.report(warm).cached_tokens == 95);  // the last token is always computed
    CHECK(collector.outcome(warm) == collector.outcome(cold));

    // Another tenant finds nothing and gets the same.
    Request other = request;
    other.tenant = "other";
    const RequestId apart = submit(engine, other);
    run_all(engine, collector);
    CHECK(collector.report(apart).cached_tokens == 0);
    CHECK(collector.outcome(apart) == collector.outcome(cold));

    // A prompt that parts from the cached one inside a page.
    Request parted = request;
    parted.tokens[69] = (parted.tokens[69] + 1) % 300;
    const RequestId partly = submit(engine, parted);
    run_all(engine, collector);
    CHECK(collector.report(partly).cached_tokens == 69);
    CHECK(collector.outcome(partly) == alone(s, parted));
  }
}

TEST_CASE("preempted equals undisturbed", "[identity]") {
  for (const Setting& s : settings()) {
    INFO(name(s));
    const std::vector<std::int32_t> prompt = long_prompt(s.model);
    std::vector<Request> list;
    for (int i = 0; i < 4; ++i) {
      list.push_back(sampled({prompt.begin() + i, prompt.begin() + 40 + i}, 7 + i, 60));
    }
    Engine engine = open(s, 1, 8, 30);  // 30 pages of 8: not enough for four answers of 100
    Collector collector;
    std::vector<RequestId> ids;
    for (const Request& request : list) ids.push_back(submit(engine, request));
    run_all(engine, collector);
    CHECK(engine.stats().preemptions > 0);
    for (std::size_t i = 0; i < ids.size(); ++i)
      CHECK(collector.outcome(ids[i]) == alone(s, list[i]));
  }
}

TEST_CASE("four answers of one prompt equal four requests, and share its pages", "[identity]") {
  const Setting s{"llama", "cpu", KvType::f16};
  Request request = sampled(long_prompt("llama"), 5, 8);
  request.n = 4;
  Engine engine = open(s);
  Collector collector;
  const RequestId id = submit(engine, request);
  auto report = engine.step();  // the prompt: six pages, for all four
  REQUIRE(report.ok());
  collector.add(engine.events());
  CHECK(engine.stats().pages_in_use == 6);
  report = engine.step();  // each answer's first token needs a page of its own
  REQUIRE(report.ok());
  CHECK(engine.stats().pages_in_use == 6 + 4);
  collector.add(engine.events());
  run_all(engine, collector);

  // Choice 0 of n = 4 is the answer of n = 1 with that seed; the others differ from it.
  Request one = request;
  one.n = 1;
  CHECK(collector.outcome(id, 0) == alone(s, one));
  int different = 0;
  for (int choice = 1; choice < 4; ++choice) {
    CHECK(collector.ended(id, choice));
    different += collector.outcome(id, choice).tokens != collector.outcome(id, 0).tokens;
  }
  CHECK(different > 0);
}

TEST_CASE("a step cut by time goes on where it was, with the same result", "[identity]") {
  const Setting s{"gemma3", "cpu", KvType::f16};
  const Request request = requests("gemma3").back();
  Engine engine = open(s);
  Collector collector;
  const RequestId id = submit(engine, request);
  int cuts = 0, steps = 0;
  while (engine.has_work() && ++steps < 100000) {
    auto report = engine.step({.time = std::chrono::nanoseconds(1)});
    REQUIRE(report.ok());
    cuts += report->cut;
    collector.add(engine.events());
  }
  CHECK(cuts > 20);  // at least one for each of the operations between the first and the last
  CHECK(collector.outcome(id) == alone(s, request));
}

}  // namespace quire::testing
