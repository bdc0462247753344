#include "text/detokenizer.h"
#include "text/named_pre_tokenizers.h"
#include "text_test_files.h"

// Behaviour that other engines got wrong, with the vocabularies of real models.
namespace quire::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<std::string> words(const std::string& name, const std::string& input) {
  auto named = named_pre_tokenizer(name);
  REQUIRE(named);
  std::string text = input;
  std::vector<TextRange> ranges;
  REQUIRE(named->pre_tokenizer.split(text, SegmentPosition::start_of_text, ranges));
  std::vector<std::string> out;
  for (const auto& range : ranges) out.push_back(text.substr(range.begin, range.size()));
  return out;
}

}  // namespace

TEST_CASE("a newline between words is token 198 in Llama 3 and Qwen 2") {
  const auto llama = open_tokenizer(llama_cpp_vocabulary("llama-bpe"));
  CHECK(llama->add_special(encode(*llama, "example\nexample")) == Ids{128000, 8858, 198, 8858});
  const auto qwen = open_tokenizer(llama_cpp_vocabulary("qwen2"));
  CHECK(encode(*qwen, "\n") == Ids{198});
}

TEST_CASE("decoding cleans nothing up") {
  const auto llama = open_tokenizer(llama_cpp_vocabulary("llama-bpe"));
  CHECK(decode(*llama, {1232, 364, 1874}) == "': 'search");
}

TEST_CASE("text after NUL is not lost") {
  const auto tokenizer = open_tokenizer(llama_cpp_vocabulary("llama-bpe"));
  const std::string text("ab\0cd", 5);
  const auto ids = encode(*tokenizer, text);
  CHECK(ids != encode(*tokenizer, "ab"));
  CHECK(decode(*tokenizer, ids) == text);
}

TEST_CASE("SmolLM splits numbers into digits") {
  CHECK(words("smollm", "a 12\u0663") == std::vector<std::string>{"a", " ", "1", "2", "\u0663"});
}

TEST_CASE("runs of spaces and HTML tags are single tokens in Gemma") {
  const auto tokenizer = open_tokenizer(real_model("gemma-3-270m-q4_k_m.gguf"));
  CHECK(encode(*tokenizer, "a  b and    c") == Ids{236746, 138, 236763, 532, 140, 236755});
  // Of a longer run the longest token that exists goes first.
  const auto fifty = encode(*tokenizer, std::string(50, ' '));
  CHECK(fifty == Ids{167, 155});
  CHECK(tokenizer->piece(167) == std::string(31, ' '));
  CHECK(encode(*tokenizer, "<h1>") == Ids{184});
}

TEST_CASE("pieces joined give spaces between words and none in front") {
  const auto tokenizer = open_tokenizer(llama_cpp_vocabulary("llama-spm"));
  CHECK(decode(*tokenizer, encode(*tokenizer, "in the house")) == "in the house");
  CHECK(decode(*tokenizer, encode(*tokenizer, " in the house")) == " in the house");
}

TEST_CASE("an emoji in byte pieces is put together again") {
  const auto tokenizer = open_tokenizer(llama_cpp_vocabulary("llama-spm"));
  const auto ids = encode(*tokenizer, "foo \U0001F917 bar");
  CHECK(ids.size() == 7);  // "foo", " ", four bytes, "bar" with its space
  CHECK(decode(*tokenizer, ids) == "foo \U0001F917 bar");
  Utf8Stream stream;
  std::string joined;
  for (std::size_t i = 0; i < 4; ++i) joined += stream.feed(tokenizer->piece(ids[i]));
  CHECK(joined + stream.finish() == " foo \uFFFD");
}

TEST_CASE("pre-tokenizers follow the models' own patterns") {
  using Words = std::vector<std::string>;
  CHECK(words("llama-bpe", "I'LL 12345 \n\n x") ==
        Words{"I", "'LL", " ", "123", "45", " \n\n", " x"});
  CHECK(words("qwen2", "12 ab") == Words{"1", "2", " ab"});
  CHECK(words("qwen35", "e\u0301a") == Words{"e\u0301a"});
  CHECK(words("qwen2", "e\u0301a") == Words{"e", "\u0301a"});
  CHECK(words("gpt-2", "I'LL  x") == Words{"I", "'", "LL", " ", " x"});
  CHECK(words("gpt-4o", "HelloWorld's") == Words{"Hello", "World's"});
  CHECK(words("tekken", "HelloWorld's 12") == Words{"Hello", "World", "'s", " ", "1", "2"});
  CHECK(words("deepseek-v3", "abc\u4E2D\u6587 1234") ==
        Words{"abc", "\u4E2D\u6587", " ", "123", "4"});
  CHECK(words("deepseek-llm", "a b  ") == Words{"a", " b", "  "});
}

TEST_CASE("U+180E is no white space") {
  CHECK(words("gpt-2", "a \u180E") == std::vector<std::string>{"a", " \u180E"});
  CHECK(words("gpt-2", "a\u0085b") == std::vector<std::string>{"a", "\u0085", "b"});
}

}  // namespace quire::text
