#include <cstdint>
#include <string>
#include <vector>

#include "failing_new.h"
#include "gguf_builder.h"
#include "text_test_files.h"

// A vocabulary takes a few times the bytes of its texts: nothing is allocated for each token.
namespace quire::text {
namespace {

constexpr int kTokens = 20'000;

// Of 16 letters: a string does not hold them itself.
std::vector<std::string> texts() {
  std::vector<std::string> out;
  for (int i = 0; i < kTokens; ++i) {
    std::string text;
    for (int n = i, k = 0; k < 4; ++k, n /= 26) text += static_cast<char>('a' + n % 26);
    out.push_back(text + text + text + text);
  }
  return out;
}

}  // namespace

TEST_CASE("a tokenizer allocates nothing for each token and few bytes") {
  const bool byte_level = GENERATE(true, false);
  INFO((byte_level ? "byte-level" : "pieces"));
  GgufBuilder gguf;
  gguf.string("general.architecture", "llama")
      .string("tokenizer.ggml.model", byte_level ? "gpt2" : "llama")
      .strings("tokenizer.ggml.tokens", texts())
      .boolean("tokenizer.ggml.add_bos_token", false);
  if (!byte_level) gguf.f32s("tokenizer.ggml.scores", std::vector<float>(kTokens, -1));
  const std::string file = gguf.bytes();
  const long blocks = test::live_allocations();
  const long bytes = test::live_bytes();
  const auto tokenizer = try_open_bytes(file);
  REQUIRE(tokenizer);
  CHECK((*tokenizer)->vocabulary_size() == kTokens);
  CHECK(test::live_allocations() - blocks < 200);
  // The text twice, where it lies, and what finds it.
  CHECK((test::live_bytes() - bytes) / kTokens < 2 * 16 + 60);
}

}  // namespace quire::text
