// Budgets of bytes, and what the estimate says of them.
#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("the estimate is what the engine then uses", "[budget]") {
  EngineOptions options = small();
  options.kv_bytes = 300000;
  auto need = Engine::estimate(data_path(kTinyModel), options);
  REQUIRE(need.ok());
  Engine engine = tiny(options);
  const EngineStats stats = engine.stats();
  CHECK(stats.kv_bytes == need->kv_bytes);
  CHECK(stats.kv_bytes <= 300000);
  CHECK(stats.memory_bytes == need->weight_bytes + need->scratch_bytes + need->kv_bytes);
  CHECK(stats.pages_total * stats.page_size == need->max_tokens);

  // Exactly enough is enough, and a byte less is not.
  options.memory_bytes = need->load_peak_bytes;
  CHECK(Engine::open(data_path(kTinyModel), options).ok());
  options.memory_bytes = need->load_peak_bytes - 1;
  auto refused = Engine::open(data_path(kTinyModel), options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::resource_exhausted);
}

TEST_CASE("a pool of one page serves what fits it and refuses the rest", "[budget]") {
  EngineOptions options = small();
  auto need = Engine::estimate(data_path(kTinyModel), options);
  REQUIRE(need.ok());
  options.kv_bytes = 16 * need->kv_bytes_per_token;
  Engine engine = tiny(options);
  CHECK(engine.stats().pages_total == 1);
  CHECK(answer_of(engine, sampled({1, 2, 3}, 1, 12)).tokens.size() == 12);
  auto refused = engine.submit(sampled({1, 2, 3}, 1, 40));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::resource_exhausted);
  CHECK(answer_of(engine, sampled({1, 2, 3}, 1, 12)).tokens.size() == 12);
}

TEST_CASE("without max_tokens an answer goes on for what the pages hold", "[budget]") {
  EngineOptions options = small();
  auto need = Engine::estimate(data_path(kTinyModel), options);
  REQUIRE(need.ok());
  options.kv_bytes = 16 * need->kv_bytes_per_token;
  Engine engine = tiny(options);
  Request request = sampled({1, 2, 3}, 1);
  request.max_tokens.reset();
  // 3 of the prompt and 13 of the answer fill the page; the 14th token is drawn and not stored.
  CHECK(answer_of(engine, request).tokens.size() == 14);
}

}  // namespace quire::testing
