// How answers end: stop strings across tokens, stop ids, end tokens, min_tokens, max_tokens.
#include "emulated.h"
#include "engine/runs.h"

namespace quire::testing {
namespace {

Request greedy(int max_tokens) {
  Request request;
  request.tokens = long_prompt("llama");
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0f;
  request.sampling.ignore_eos = true;
  return request;
}

}  // namespace

TEST_CASE("a stop string that spans tokens ends the answer and is not delivered", "[stop]") {
  Engine engine = tiny();
  const Generation whole = generate(engine, greedy(20));
  // Any part of the text is a stop; take one from the middle that crosses token borders.
  const std::string& text = whole.text;
  REQUIRE(text.size() > 8);
  for (std::size_t from : {std::size_t{0}, text.size() / 3, text.size() / 2}) {
    std::string stop = text.substr(from, 4);
    if (stop.find('\xef') != std::string::npos || (stop[0] & 0xC0) == 0x80) continue;
    Request request = greedy(20);
    request.stop = {"never there", stop};
    const Generation stopped = generate(engine, request);
    CHECK(stopped.text == text.substr(0, text.find(stop)));
    CHECK(stopped.choices[0].finish_reason == FinishReason::stop);
    CHECK(stopped.choices[0].stop_match == stop);
  }
}

TEST_CASE("what an answer that a stop string ended leaves in the cache changes no later one",
          "[stop]") {
  Engine fresh = tiny();
  const Generation whole = generate(fresh, greedy(20));
  const std::size_t prompt = greedy(20).tokens.size();
  // Two characters of the middle that are ASCII, so that no borders of others are cut.
  std::size_t from = whole.text.size() / 3;
  const auto ascii = [&](std::size_t at) { return (whole.text[at] & 0x80) == 0; };
  while (from + 2 < whole.text.size() && !(ascii(from) && ascii(from + 1))) ++from;
  const std::string stop = whole.text.substr(from, 2);

  Engine engine = tiny();
  Request request = greedy(20);
  request.stop = {stop};
  const Generation warm_up = generate(engine, request);
  REQUIRE(warm_up.choices[0].finish_reason == FinishReason::stop);
  CHECK(warm_up.report.cached_tokens == 0);

  // The prompt's last token is always computed.
  const Generation again = generate(engine, request);
  CHECK(outcome_of(again.choices[0]) == outcome_of(warm_up.choices[0]));
  CHECK(again.report.cached_tokens == static_cast<int>(prompt) - 1);
  const Generation without_stop = generate(engine, greedy(20));
  CHECK(outcome_of(without_stop.choices[0]) == outcome_of(whole.choices[0]));
  CHECK(without_stop.report.cached_tokens == static_cast<int>(prompt) - 1);

  // A prompt that goes on behind the stopped answer: the answer's last token was not yet computed.
  Engine other = tiny();
  generate(other, request);
  Request next = greedy(20);
  const auto& answer = warm_up.choices[0].tokens;
  next.tokens.insert(next.tokens.end(), answer.begin(), answer.end());
  next.tokens.push_back(7);
  const Generation warm = generate(other, next);
  CHECK(warm.report.cached_tokens == static_cast<int>(prompt + answer.size()) - 1);
  Engine cold = tiny();
  CHECK(outcome_of(warm.choices[0]) == outcome_of(generate(cold, next).choices[0]));
}

TEST_CASE("a stop token id ends the answer and gives no text", "[stop]") {
  Engine engine = tiny();
  const Generation whole = generate(engine, greedy(20));
  Request request = greedy(20);
  request.stop_token_ids = {whole.choices[0].tokens[5]};
  const Generation stopped = generate(engine, request);
  std::size_t first = 0;
  while (whole.choices[0].tokens[first] != whole.choices[0].tokens[5]) ++first;
  CHECK(stopped.choices[0].tokens.size() == first + 1);
  CHECK(stopped.choices[0].finish_reason == FinishReason::stop);
}

TEST_CASE("any id of the union of end tokens ends the answer", "[stop]") {
  Engine engine = tiny();
  const std::int32_t end = 313;  // <|end|>, the tiny models' eos
  Request request = greedy(20);
  request.sampling.ignore_eos = false;
  request.sampling.logit_bias = {{end, 1000.0f}};
  const Generation stopped = generate(engine, request);
  CHECK(stopped.choices[0].finish_reason == FinishReason::end);
  CHECK(stopped.choices[0].tokens == std::vector<std::int32_t>{end});
  CHECK(stopped.text.empty());

  request.sampling.ignore_eos = true;
  CHECK(generate(engine, request).choices[0].tokens.size() == 20);
}

TEST_CASE("min_tokens counts output only and holds for end and stop ids alike", "[stop]") {
  Engine engine = tiny();
  Request request = greedy(20);
  request.sampling.ignore_eos = false;
  request.sampling.logit_bias = {{313, 1000.0f}, {7, 900.0f}};
  request.stop_token_ids = {7};
  request.sampling.min_tokens = 6;
  const Generation answer = generate(engine, request);
  CHECK(answer.choices[0].tokens.size() == 7);  // six others, then the end
  CHECK(answer.choices[0].tokens.back() == 313);
}

TEST_CASE("a stop that is a control token's text stops although it is rendered empty", "[stop]") {
  Engine engine = tiny();
  Request request = greedy(20);
  request.stop = {"<|im_end|>"};
  request.sampling.logit_bias = {{315, 1000.0f}};
  const Generation answer = generate(engine, request);
  CHECK(answer.choices[0].finish_reason == FinishReason::stop);
  CHECK(answer.choices[0].tokens.size() == 1);
  CHECK(answer.choices[0].stop_match == "<|im_end|>");
}

TEST_CASE("the joined stream is the final text, and decodes the tokens", "[stop]") {
  Engine engine = tiny();
  for (std::uint64_t seed = 0; seed < (kEmulated ? 5 : 20); ++seed) {
    Request request = sampled({3, 1, 4, 1, 5}, seed, 40);
    const RequestId id = submit(engine, request);
    std::string joined;
    std::vector<std::int32_t> tokens;
    while (engine.has_work()) {
      REQUIRE(engine.step().ok());
      for (const TokenEvent& event : engine.events()) {
        joined += event.text;
        tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      }
    }
    (void)id;
    auto text = engine.tokenizer().decode(tokens);
    REQUIRE(text.ok());
    CHECK(joined == *text);
    CHECK(generate(engine, request).text == joined);
  }
}

TEST_CASE("max_tokens 0 with prompt log-probabilities computes no completion", "[stop]") {
  Engine engine = tiny();
  Request request = greedy(0);
  request.prompt_logprobs = 1;
  const Generation answer = generate(engine, request);
  CHECK(answer.choices[0].tokens.empty());
  CHECK(answer.choices[0].finish_reason == FinishReason::length);
  REQUIRE(answer.prompt_logprobs.size() == request.tokens.size());
  CHECK_FALSE(answer.prompt_logprobs[0].logprob.has_value());
  CHECK(answer.prompt_logprobs[1].logprob.has_value());

  // The same lists again, though the prompt's pages are cached now.
  const Generation again = generate(engine, request);
  for (std::size_t i = 1; i < request.tokens.size(); ++i) {
    CHECK(again.prompt_logprobs[i].logprob == answer.prompt_logprobs[i].logprob);
    CHECK(again.prompt_logprobs[i].top == answer.prompt_logprobs[i].top);
  }
  request.prompt_logprobs.reset();
  CHECK(generate(engine, request).choices[0].finish_reason == FinishReason::length);
}

}  // namespace quire::testing
