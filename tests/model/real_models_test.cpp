// Real models against transformers in float32 on the same dequantised weights: log-probabilities of
// prompt and greedy tokens, golden ids fed back (tests/data/README.md, "model/").
#include "model/real_model_check.h"

namespace quire::testing {
namespace {

EngineOptions exact() {
  EngineOptions options;
  options.cpu.compute = Compute::f32;
  options.cache.type = KvType::f32;
  return options;
}

void check_exact(Differences differences) {
  INFO("mean " << differences.mean() << ", largest " << differences.quantile(1));
  CHECK(differences.quantile(1) <= 1e-3);
  CHECK(differences.other_best == 0);
}

}  // namespace

TEST_CASE("SmolLM2 in float32 is within 1e-3 of transformers", "[real]") {
  check_exact(compare_model(kSmolLm2, "smollm2.json", exact(), 0.01));
}

TEST_CASE("Gemma 3 in float32 is within 1e-3 of transformers", "[real]") {
  check_exact(compare_model(kGemma3, "gemma3.json", exact(), 0.01));
}

// Limits: no farther from float32 than llama.cpp's int8 path is.
TEST_CASE("SmolLM2 with int8 activations is as close to float32 as llama.cpp", "[real]") {
  check_differences(compare_model(kSmolLm2, "smollm2.json", {}, 0.75), 0.07, 0.35);
}

TEST_CASE("Gemma 3 with int8 activations is as close to float32 as llama.cpp", "[real]") {
  check_differences(compare_model(kGemma3, "gemma3.json", {}, 0.75), 0.09, 0.45);
}

TEST_CASE("chat prompts are rendered and encoded as transformers does", "[real]") {
  auto tokenizer = Tokenizer::open(repository_model(kSmolLm2));
  REQUIRE(tokenizer.ok());
  const Json expected = read_json(data_path("model/smollm2.json"));
  int compared = 0;
  for (const Json& prompt : *member(expected, "prompts").array()) {
    if (!prompt.find("messages")) continue;
    std::vector<ChatMessage> messages;
    for (const Json& message : *member(prompt, "messages").array()) {
      messages.push_back({*member(message, "role").string(), *member(message, "content").string()});
    }
    auto text = tokenizer->apply_chat_template(messages);
    auto ids = tokenizer->encode_chat(messages);
    REQUIRE(text.ok());
    REQUIRE(ids.ok());
    CHECK(*text == *member(prompt, "text").string());
    CHECK(*ids == ids_of(member(prompt, "ids")));
    ++compared;
  }
  CHECK(compared > 0);
}

}  // namespace quire::testing
