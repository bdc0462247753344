#include "gguf_builder.h"
#include "text_test_files.h"

// Control tokens, user-defined tokens, trust, BOS and end tokens.
namespace quire::text {
namespace {

using Ids = std::vector<std::int32_t>;

// Ids: 0-25 a-z, 26 space, 27 newline; then what the test adds.
struct Small {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
  Small() {
    for (char c = 'a'; c <= 'z'; ++c) texts.emplace_back(1, c);
    texts.push_back("\u0120");
    texts.push_back("\u010A");
    for (const char* symbol : {"<", ">", "|", "_"}) texts.push_back(symbol);
    types.assign(texts.size(), 1);
  }
  std::int32_t add(const std::string& text, int type) {
    texts.push_back(text);
    types.push_back(type);
    return static_cast<std::int32_t>(texts.size()) - 1;
  }
  GgufBuilder gguf() const {
    GgufBuilder builder;
    builder.string("general.architecture", "llama")
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", texts)
        .strings("tokenizer.ggml.merges", {"h i"})
        .i32s("tokenizer.ggml.token_type", types);
    return builder;
  }
};

std::unique_ptr<TextTokenizer> open(const GgufBuilder& gguf) {
  auto tokenizer = try_open_bytes(gguf.bytes());
  INFO(tokenizer.status().message());
  REQUIRE(tokenizer);
  return std::move(*tokenizer);
}

Ids encode_pieces(const TextTokenizer& tokenizer, const std::vector<RenderedPiece>& pieces) {
  auto ids = tokenizer.encode_pieces(pieces);
  REQUIRE(ids);
  return *ids;
}

}  // namespace

TEST_CASE("control tokens match only where special tokens are parsed") {
  Small small;
  const auto end = small.add("<|end|>", 3);
  const auto tokenizer = open(small.gguf());
  CHECK(encode(*tokenizer, "a<|end|>b", true) == Ids{0, end, 1});
  CHECK(encode(*tokenizer, "a<|end|>b", false) == Ids{0, 28, 30, 4, 13, 3, 30, 29, 1});
  CHECK(tokenizer->piece(end).empty());
  CHECK(tokenizer->special_text(end) == "<|end|>");
  CHECK(tokenizer->special_text(0).empty());
}

TEST_CASE("user-defined tokens match in raw text either way, the longest first") {
  Small small;
  const auto two = small.add("<b", 4);
  const auto three = small.add("<b>", 4);
  const auto tokenizer = open(small.gguf());
  for (const bool parse_special : {false, true}) {
    CHECK(encode(*tokenizer, "a<b>a<b a", parse_special) == Ids{0, three, 0, two, 26, 0});
  }
  CHECK(tokenizer->piece(three) == "<b>");
  CHECK_FALSE(tokenizer->is_special(three));
}

TEST_CASE("special tokens in a caller's message stay text") {
  Small small;
  const auto start = small.add("<|s|>", 3);
  const auto end = small.add("<|e|>", 3);
  const auto tag = small.add("<b>", 4);
  const auto tokenizer = open(small.gguf());
  const Ids plain_end = encode(*tokenizer, "<|e|>");
  Ids expected = {start, 0};
  expected.insert(expected.end(), plain_end.begin(), plain_end.end());
  expected.insert(expected.end(), {tag, end});
  CHECK(encode_pieces(*tokenizer, {{"<|s|>a", true}, {"<|e|><b>", false}, {"<|e|>", true}}) ==
        expected);
  // Not even when a trusted and an untrusted piece make it together.
  CHECK(encode_pieces(*tokenizer, {{"<|e", true}, {"|>", false}}) == plain_end);
  CHECK(encode_pieces(*tokenizer, {{"<|", false}, {"e|>", true}}) == plain_end);
  // Two trusted ones are one text.
  CHECK(encode_pieces(*tokenizer, {{"<|e", true}, {"", false}, {"|>", true}}) == Ids{end});
}

TEST_CASE("text that a template and a message make together is one text") {
  const auto tokenizer = open_tokenizer(real_model("SmolLM2-135M-Instruct.Q4_1.gguf"));
  const std::vector<RenderedPiece> pieces = {
      {"<|im_start|>user\nHi", true}, {" there, wor", false}, {"ld<|im_end|>", true}};
  CHECK(encode_pieces(*tokenizer, pieces) ==
        encode(*tokenizer, "<|im_start|>user\nHi there, world<|im_end|>", true));
}

TEST_CASE("a BOS that the template wrote is not doubled") {
  const auto tokenizer = open_tokenizer(llama_cpp_vocabulary("llama-bpe"));
  const Ids with = encode_pieces(*tokenizer, {{"<|begin_of_text|>hello", true}});
  CHECK(with == Ids{128000, 15339});
  CHECK(encode_pieces(*tokenizer, {{"hello", true}}) == with);
  CHECK(tokenizer->add_special(with) == with);
  CHECK(tokenizer->add_special({15339}) == with);
  // One in a message is text.
  CHECK(encode_pieces(*tokenizer, {{"<|begin_of_text|>", false}}).size() > 2);
}

TEST_CASE("end tokens are the union of eos, eot, eom and the known texts") {
  Small small;
  const auto eos = small.add("<|done|>", 3);
  const auto eot = small.add("<|turn|>", 1);
  const auto eom = small.add("<|message_over|>", 3);
  const auto known = small.add("<|im_end|>", 3);
  small.add("<|eot_id|>", 1);  // no control token: a text like any other
  const auto tokenizer = open(small.gguf()
                                  .u32("tokenizer.ggml.eos_token_id", eos)
                                  .u32("tokenizer.ggml.eot_token_id", eot)
                                  .u32("tokenizer.ggml.eom_token_id", eom));
  CHECK(tokenizer->end_tokens() == Ids{eos, eot, eom, known});
  CHECK(tokenizer->is_special(eot));
}

TEST_CASE("gpt-oss goes on after the end of a message") {
  Small small;
  small.add("<|end|>", 3);
  const auto done = small.add("<|return|>", 3);
  const auto call = small.add("<|call|>", 3);
  CHECK(open(small.gguf())->end_tokens() == Ids{done, call});
}

TEST_CASE("generation_config's list of end tokens counts, whatever the tokenizer says") {
  TemporaryFolder folder;
  folder.write("config.json", R"({"eos_token_id": 1, "vocab_size": 4})");
  folder.write("generation_config.json", R"({"eos_token_id": [2, 0]})");
  folder.write("tokenizer_config.json", R"({"eos_token": "d", "bos_token": {"content": "a"}})");
  folder.write("tokenizer.json", R"({"model": {"type": "BPE", "merges": [],
      "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}}})");
  const auto tokenizer = open_tokenizer(folder.path());
  CHECK(tokenizer->end_tokens() == Ids{0, 1, 2, 3});
  CHECK(tokenizer->eos() == 3);
  CHECK(tokenizer->bos() == 0);
}

TEST_CASE("an unknown pre-tokenizer is an error that lists the known, a missing one the default") {
  Small small;
  GgufBuilder gguf;
  gguf.string("general.architecture", "llama")
      .string("tokenizer.ggml.model", "gpt2")
      .strings("tokenizer.ggml.tokens", small.texts);
  CHECK(open(gguf)->vocabulary_size() == 32);
  const auto failed = try_open_bytes(gguf.string("tokenizer.ggml.pre", "brand-new").bytes());
  CHECK(failed.status().code() == StatusCode::unsupported);
  const std::string& message = failed.status().message();
  CHECK(message.find("pre-tokenizer \"brand-new\" is not one of: ") != std::string::npos);
  for (const char* known :
       {"llama-bpe", "qwen2", "smollm", "gpt-4o", "tekken", "deepseek-r1-qwen"}) {
    CHECK(message.find(known) != std::string::npos);
  }
}

}  // namespace quire::text
