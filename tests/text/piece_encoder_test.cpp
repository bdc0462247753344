#include <cstdio>
#include <random>
#include <set>
#include <vector>

#include "emulated.h"
#include "gguf_builder.h"
#include "proto_builder.h"
#include "text/token_table.h"
#include "text/utf8.h"
#include "text_test_files.h"

// The pieces of a GGUF give what the sentencepiece library gives for the same model.
namespace quire::text {
namespace {

struct Pieces {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  bool byte_fallback = false;
  bool prefix_space = false;
  bool removes_spaces = false;

  void add(const std::string& text, float score, TokenKind kind) {
    texts.push_back(text);
    scores.push_back(score);
    kinds.push_back(static_cast<std::int32_t>(kind));
  }
  void add_bytes() {
    byte_fallback = true;
    for (int byte = 0; byte < 256; ++byte) {
      char spelled[8];
      std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
      add(spelled, 0, TokenKind::byte);
    }
  }
};

std::unique_ptr<TextTokenizer> by_library(const Pieces& pieces) {
  ProtoBuilder proto;
  for (std::size_t i = 0; i < pieces.texts.size(); ++i) {
    proto.piece(pieces.texts[i], pieces.scores[i], pieces.kinds[i]);
  }
  proto.bytes(2, ProtoBuilder().integer(3, 2).integer(35, pieces.byte_fallback).take());
  proto.bytes(3, ProtoBuilder()
                     .bytes(1, "identity")
                     .integer(3, pieces.prefix_space)
                     .integer(4, pieces.removes_spaces)
                     .take());
  TemporaryFolder folder;
  folder.write("config.json", "{}");
  folder.write("tokenizer.model", proto.take());
  return open_tokenizer(folder.path());
}

std::unique_ptr<TextTokenizer> by_gguf(const Pieces& pieces) {
  GgufBuilder gguf;
  gguf.string("general.architecture", "llama")
      .string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", pieces.texts)
      .f32s("tokenizer.ggml.scores", pieces.scores)
      .i32s("tokenizer.ggml.token_type", pieces.kinds)
      .u32("tokenizer.ggml.unknown_token_id", 0)
      .boolean("tokenizer.ggml.add_space_prefix", pieces.prefix_space)
      .boolean("tokenizer.ggml.remove_extra_whitespaces", pieces.removes_spaces);
  auto tokenizer = try_open_bytes(gguf.bytes());
  INFO(tokenizer.status().message());
  REQUIRE(tokenizer);
  return std::move(*tokenizer);
}

std::string random_text(std::mt19937& random, std::size_t most,
                        const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t n = random() % (most + 1); n > 0; --n) text += parts[random() % parts.size()];
  return text;
}

// Few letters and few scores, so that pieces overlap and tie.
Pieces random_pieces(std::mt19937& random) {
  Pieces pieces;
  pieces.add("<unk>", 0, TokenKind::unknown);
  if (random() % 2) pieces.add_bytes();
  pieces.prefix_space = random() % 2;
  pieces.removes_spaces = random() % 2;
  std::set<std::string> known = {""};
  for (std::size_t n = random() % 60 + 1; n > 0; --n) {
    const std::string text = random_text(random, 5, {"a", "b", "\u00E9", "\u2581"});
    if (!known.insert(text).second) continue;
    pieces.add(text, -static_cast<float>(random() % 6),
               random() % 4 ? TokenKind::normal : TokenKind::unused);
  }
  return pieces;
}

void check_equal(const TextTokenizer& found, const TextTokenizer& wanted, const std::string& text) {
  INFO("\"" << text << "\"");
  REQUIRE(encode(found, text) == encode(wanted, text));
}

}  // namespace

TEST_CASE("pieces of any kind and score encode as the sentencepiece library does") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < (testing::kEmulated ? 20 : 200); ++round) {
    const Pieces pieces = random_pieces(random);
    const auto wanted = by_library(pieces);
    const auto found = by_gguf(pieces);
    INFO("bytes " << pieces.byte_fallback << " prefix " << pieces.prefix_space << " removes "
                  << pieces.removes_spaces);
    for (int n = 0; n < 50; ++n) {
      check_equal(*found, *wanted,
                  random_text(random, 30, {"a", "b", "\u00E9", " ", "ab", "x", "\u2581", "\n"}));
    }
  }
}

TEST_CASE("pieces of a real vocabulary encode as the sentencepiece library does") {
  if (testing::kEmulated) return;  // nothing here depends on the instruction set
  auto files = format::ModelFiles::open(real_model("gemma-3-270m-q4_k_m.gguf"));
  REQUIRE(files);
  Pieces pieces;
  for (const std::string_view text : *files->gguf()->strings("tokenizer.ggml.tokens")) {
    pieces.texts.emplace_back(text);
  }
  pieces.scores = *files->gguf()->reals("tokenizer.ggml.scores");
  std::vector<std::string> texts;  // of what a text can be made of
  for (const std::int64_t kind : *files->gguf()->integers("tokenizer.ggml.token_type")) {
    if (kind == static_cast<int>(TokenKind::normal)) {
      texts.push_back(pieces.texts[pieces.kinds.size()]);
    }
    pieces.kinds.push_back(static_cast<std::int32_t>(kind));
  }
  const auto unknown = files->gguf()->integer("tokenizer.ggml.unknown_token_id", 0, 10);
  REQUIRE(unknown);
  pieces.kinds[*unknown] = static_cast<std::int32_t>(TokenKind::unknown);
  pieces.byte_fallback = true;
  const auto wanted = by_library(pieces);
  const auto found = open_tokenizer(files->name());
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::string text = random_text(random, 40, texts);
    while (!text.empty() && random() % 8) {  // so that others than whole pieces meet
      const std::size_t at = random() % text.size();
      if ((text[at] & 0xC0) == 0x80) continue;
      text.erase(at, next_utf8(std::string_view(text).substr(at)).length);
    }
    check_equal(*found, *wanted, text);
  }
}

}  // namespace quire::text
