// What answers keep of their model: its numbers, its own distribution, its tokens.
#include <algorithm>
#include <string>
#include <vector>

#include "emulated.h"
#include "engine/runs.h"

namespace quire::testing {

TEST_CASE("a weight that is NaN fails its request and leaves the engine usable", "[failure]") {
  auto engine = Engine::open(data_path("tiny/malformed/nan_weight.gguf"), small());
  REQUIRE(engine.ok());
  for (int i = 0; i < 2; ++i) {
    Request request;
    request.tokens = {1, 2, 3};
    request.max_tokens = 4;
    auto answer = engine->generate(request);
    CHECK_FALSE(answer.ok());
    CHECK_FALSE(engine->has_work());
    CHECK(engine->stats().pages_in_use == 0);
  }
}

TEST_CASE("a NUL in a message is a part of its text", "[api]") {
  Engine engine = tiny();
  const std::string text("ab\0cd", 5);
  auto ids = engine.tokenizer().encode_chat({{"user", text}});
  auto begin = engine.tokenizer().encode_chat({{"user", "ab"}});
  REQUIRE(ids.ok());
  REQUIRE(begin.ok());
  CHECK(ids->size() > begin->size());
  auto decoded = engine.tokenizer().decode(*ids);
  REQUIRE(decoded.ok());
  CHECK(decoded->find(text) != std::string::npos);
}

TEST_CASE("long or short RoPE factors are chosen once, by what a request may grow to", "[rope]") {
  Engine engine = open_engine(data_path("tiny/phi3_longrope/model.gguf"), small());  // long past 64
  const std::vector<std::int32_t> prompt(20, 7);
  const Generation fits = generate(engine, sampled(prompt, 1, 44));
  const Generation grows = generate(engine, sampled(prompt, 1, 45));
  CHECK(grows.report.cached_tokens == 0);  // keys are turned by other factors
  CHECK(*grows.choices[0].logprobs[0].logprob != *fits.choices[0].logprobs[0].logprob);
  const Generation again = generate(engine, sampled(prompt, 1, 44));
  CHECK(again.report.cached_tokens == 19);
  CHECK(outcome_of(again.choices[0]) == outcome_of(fits.choices[0]));
}

TEST_CASE("log-probabilities are those of the model, sorted, whatever the sampling", "[logprobs]") {
  Engine engine = tiny();
  Request plain = sampled({9, 8, 7}, 3, 1);
  plain.logprobs = 5;
  plain.sampling.temperature = 0.0f;
  const TokenLogprob expected = generate(engine, plain).choices[0].logprobs[0];
  CHECK(expected.top.size() == 5);
  CHECK(expected.top[0].first == expected.id);
  CHECK(*expected.logprob == expected.top[0].second);
  CHECK(std::is_sorted(expected.top.begin(), expected.top.end(),
                       [](const auto& a, const auto& b) { return a.second > b.second; }));
  Request odd = plain;
  odd.sampling.temperature = 3.0f;
  odd.sampling.top_p = 0.5f;
  odd.sampling.logit_bias = {{17, 4.0f}};
  odd.sampling.repetition_penalty = 1.5f;
  CHECK(generate(engine, odd).choices[0].logprobs[0].top == expected.top);
}

TEST_CASE("a padded row of the head is never chosen for text", "[sampling]") {
  Engine engine = open_engine(data_path("tiny/llama"));  // 320 rows, 316 tokens
  for (std::uint64_t seed = 0; seed < (kEmulated ? 6 : 30); ++seed) {
    Request request = sampled({}, seed, 40);
    request.prompt = "hello";
    request.sampling.temperature = 3.0f;
    request.sampling.top_k = 0;
    const Generation answer = generate(engine, request);
    for (std::int32_t id : answer.choices[0].tokens) CHECK(id < 316);
  }
}

}  // namespace quire::testing
