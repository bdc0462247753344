#include "gguf_builder.h"
#include "text_test_files.h"

// Vocabularies that break their format are errors that name the key, never a crash.
namespace quire::text {
namespace {

Status status_of(const GgufBuilder& gguf) {
  return try_open_bytes(gguf.bytes()).status();
}

GgufBuilder vocabulary(std::string_view model) {
  GgufBuilder gguf;
  gguf.string("general.architecture", "llama").string("tokenizer.ggml.model", model);
  return gguf;
}

GgufBuilder two_tokens(std::string_view model) {
  auto gguf = vocabulary(model);
  gguf.strings("tokenizer.ggml.tokens", {"a", "b"});
  return gguf;
}

void check_malformed(const GgufBuilder& gguf, std::string_view names) {
  const Status status = status_of(gguf);
  INFO(status.message());
  CHECK(status.code() == StatusCode::malformed);
  CHECK(status.message().find(names) != std::string::npos);
}

}  // namespace

TEST_CASE("a vocabulary needs tokens, and one type and score for each") {
  check_malformed(vocabulary("gpt2"), "tokenizer.ggml.tokens");
  check_malformed(vocabulary("gpt2").strings("tokenizer.ggml.tokens", {}), "tokenizer.ggml.tokens");
  check_malformed(two_tokens("gpt2").i32s("tokenizer.ggml.token_type", {1}),
                  "tokenizer.ggml.token_type has 1 entries for 2 tokens");
  check_malformed(two_tokens("gpt2").i32s("tokenizer.ggml.token_type", {1, 9}),
                  "tokenizer.ggml.token_type[1] is 9");
  check_malformed(two_tokens("gpt2").i32s("tokenizer.ggml.token_type", {-1, 1}),
                  "tokenizer.ggml.token_type[0] is -1");
  check_malformed(two_tokens("llama"), "tokenizer.ggml.scores has 0 entries for 2 tokens");
  check_malformed(two_tokens("llama").f32s("tokenizer.ggml.scores", {1, 2, 3}),
                  "tokenizer.ggml.scores has 3 entries for 2 tokens");
}

TEST_CASE("ids of special tokens lie in the vocabulary") {
  check_malformed(two_tokens("gpt2").u32("tokenizer.ggml.bos_token_id", 2), "bos_token_id");
  check_malformed(two_tokens("gpt2").u32("tokenizer.ggml.eos_token_id", 4294967295u),
                  "eos_token_id");
  check_malformed(two_tokens("llama")
                      .f32s("tokenizer.ggml.scores", {0, 0})
                      .u32("tokenizer.ggml.unknown_token_id", 7),
                  "unknown_token_id");
}

TEST_CASE("keys of the wrong type are refused") {
  check_malformed(two_tokens("gpt2").string("tokenizer.ggml.bos_token_id", "1"), "bos_token_id");
  check_malformed(two_tokens("gpt2").u32("tokenizer.ggml.add_bos_token", 1), "add_bos_token");
  check_malformed(two_tokens("llama").i32s("tokenizer.ggml.scores", {0, 0}), "scores");
  check_malformed(vocabulary("gpt2").i32s("tokenizer.ggml.tokens", {1, 2}), "tokens");
  check_malformed(two_tokens("gpt2").i32s("tokenizer.ggml.merges", {1}), "merges");
}

TEST_CASE("merges have two parts, split after the first character") {
  check_malformed(two_tokens("gpt2").strings("tokenizer.ggml.merges", {"a b", "ab"}),
                  "tokenizer.ggml.merges[1] is not two parts");
  check_malformed(two_tokens("gpt2").strings("tokenizer.ggml.merges", {""}),
                  "tokenizer.ggml.merges[0] is not two parts");
  check_malformed(two_tokens("gpt2").strings("tokenizer.ggml.merges", {"a "}),
                  "tokenizer.ggml.merges[0] is not two parts");
  CHECK(status_of(two_tokens("gpt2").strings("tokenizer.ggml.merges", {"a b"})).ok());
  // Characters outside of the byte-level alphabet never occur.
  CHECK(status_of(two_tokens("gpt2").strings("tokenizer.ggml.merges", {"\u4E2D b"})).ok());
}

TEST_CASE("an unknown tokenizer model is an error that lists the known") {
  const Status status = status_of(two_tokens("wordpiece"));
  CHECK(status.code() == StatusCode::unsupported);
  CHECK(status.message().find("\"wordpiece\", not one of: gemma4, gpt2, llama, none") !=
        std::string::npos);
}

TEST_CASE("an endless special token is refused") {
  auto gguf = vocabulary("gpt2");
  gguf.strings("tokenizer.ggml.tokens", {"a", std::string(5000, 'x')})
      .i32s("tokenizer.ggml.token_type", {1, 3});
  CHECK(status_of(gguf).code() == StatusCode::unsupported);
}

TEST_CASE("a text longer than the limit is refused") {
  auto tokenizer = try_open_bytes(two_tokens("gpt2").bytes());
  REQUIRE(tokenizer);
  const std::string text((std::size_t{1} << 28) + 1, 'a');
  CHECK((*tokenizer)->encode(text, false).status().code() == StatusCode::resource_exhausted);
}

}  // namespace quire::text
