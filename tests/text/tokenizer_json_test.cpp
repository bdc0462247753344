#include "text/tokenizer_json.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "text/token_spelling.h"
#include "text_test_files.h"

// Small tokenizers; their ids are those that huggingface/tokenizers 0.23.3 gives.
namespace quire::text {
namespace {

JsonObject added_token(std::int64_t id, const char* content, bool special,
                       std::initializer_list<const char*> flags) {
  JsonObject token = {{"id", id}, {"content", content}, {"special", special}};
  for (const char* name : {"lstrip", "rstrip", "single_word", "normalized"}) {
    const bool set = std::find_if(flags.begin(), flags.end(), [&](std::string_view flag) {
                       return flag == name;
                     }) != flags.end();
    token.emplace_back(name, set);
  }
  return token;
}

Json parsed(std::string_view text) {
  auto json = parse_json(text);
  REQUIRE(json);
  return *json;
}

// The id of a byte is its value.
Json byte_level_tokenizer() {
  JsonObject vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelled;
    append_byte_level(std::string(1, static_cast<char>(byte)), spelled);
    vocab.emplace_back(spelled, byte);
  }
  JsonArray added;
  added.emplace_back(added_token(256, "<s>", true, {}));
  added.emplace_back(added_token(257, "<mask>", true, {"lstrip"}));
  added.emplace_back(added_token(258, "<user>", true, {"rstrip"}));
  added.emplace_back(added_token(259, "word", false, {"normalized", "single_word"}));
  added.emplace_back(added_token(260, "<s>x", false, {"normalized"}));
  added.emplace_back(added_token(261, "caf\u00E9", false, {"normalized"}));
  added.emplace_back(added_token(262, "il\u00D6veyou", false, {"normalized"}));
  added.emplace_back(added_token(263, "  ", false, {}));
  JsonObject model = {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", JsonArray()}};
  return JsonObject{
      {"added_tokens", std::move(added)},
      {"normalizer", parsed(R"({"type": "NFC"})")},
      {"pre_tokenizer", parsed(R"({"type": "ByteLevel", "add_prefix_space": false})")},
      {"post_processor", parsed(R"({"type": "TemplateProcessing", "single": [
          {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
          {"SpecialToken": {"id": "<user>", "type_id": 0}}],
          "special_tokens": {"<s>": {"id": "<s>", "ids": [256]}, "<user>": {"ids": [258]}}})")},
      {"model", std::move(model)}};
}

// As Llama 2's: spaces are U+2581, one goes in front, other bytes fall back.
Json llama_tokenizer() {
  JsonObject vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    char spelled[8];
    std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    vocab.emplace_back(spelled, 3 + byte);
  }
  for (const char* piece : {"\u2581", "h", "e", "l", "o", "\u2581h", "el", "\u2581hel", "lo",
                            "\u2581hello", "w", "\u2581w", "\n", "\u2581\u2581"}) {
    vocab.emplace_back(piece, static_cast<std::int64_t>(vocab.size()));
  }
  JsonArray merges;
  for (const char* merge :
       {"\u2581 h", "e l", "\u2581h el", "l o", "\u2581hel lo", "\u2581 w", "\u2581 \u2581"}) {
    merges.emplace_back(merge);
  }
  JsonArray added;
  added.emplace_back(added_token(0, "<unk>", true, {}));
  added.emplace_back(added_token(1, "<s>", true, {}));
  added.emplace_back(added_token(2, "</s>", true, {}));
  JsonObject model = {
      {"type", "BPE"},         {"unk_token", "<unk>"},      {"fuse_unk", true},
      {"byte_fallback", true}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
  return JsonObject{{"added_tokens", std::move(added)},
                    {"normalizer", parsed(R"({"type": "Sequence", "normalizers": [
          {"type": "Prepend", "prepend": "\u2581"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})")},
                    {"pre_tokenizer", nullptr},
                    {"decoder", parsed(R"({"type": "Sequence", "decoders": [
          {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"},
          {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})")},
                    {"model", std::move(model)}};
}

VocabularyTokenizer make(const Json& json) {
  auto parts = tokenizer_from_json(json, "tokenizer.json");
  INFO(parts.status().message());
  REQUIRE(parts);
  return VocabularyTokenizer(std::move(*parts));
}

StatusCode code_of(const Json& json) {
  return tokenizer_from_json(json, "tokenizer.json").status().code();
}

using Ids = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("added tokens match as their flags say") {
  const auto tokenizer = make(byte_level_tokenizer());
  const std::vector<std::pair<std::string, Ids>> cases = {
      {"a <mask> b", {97, 257, 32, 98}},
      {"a \n<mask>", {97, 257}},
      {"<user> \n hi", {258, 104, 105}},
      {"<user>", {258}},
      {"word words word_ (word) word1 \u00E9word",
       {259, 32, 119, 111, 114, 100, 115, 32, 119, 111, 114, 100, 95,  32,  40,
        259, 41, 32,  119, 111, 114, 100, 49, 32,  195, 169, 119, 111, 114, 100}},
      {"<s>x<s>y", {256, 120, 256, 121}},
      {"caf\u00E9 cafe\u0301", {261, 32, 261}},
      {"il\u00D6veyou", {262}},
      {"a    b   c", {97, 263, 263, 98, 263, 32, 99}},
      {"<s><s>", {256, 256}},
      {"<mask> <user> <mask>", {257, 32, 258, 257}},
  };
  for (const auto& [text, ids] : cases) {
    INFO(text);
    CHECK(encode(tokenizer, text, true) == ids);
  }
}

TEST_CASE("a byte-level added token decodes to itself") {
  const auto tokenizer = make(byte_level_tokenizer());
  CHECK(tokenizer.piece(262) == "il\u00D6veyou");
  CHECK(decode(tokenizer, encode(tokenizer, "\u010D il\u00D6veyou")) == "\u010D il\u00D6veyou");
  CHECK(tokenizer.piece(0xC4) == "\xC4");
}

TEST_CASE("the post-processor says what goes around a text") {
  const auto tokenizer = make(byte_level_tokenizer());
  CHECK(tokenizer.add_special({97}) == Ids{256, 97, 258});
  CHECK(tokenizer.add_special({256, 97, 258}) == Ids{256, 97, 258});
  CHECK(tokenizer.add_special({}) == Ids{256, 258});
}

TEST_CASE("BPE over characters with byte fallback and a prefix space") {
  const auto tokenizer = make(llama_tokenizer());
  struct Case {
    std::string text;
    Ids ids;
    std::string decoded;
  };
  const std::vector<Case> cases = {
      {"hello", {268}, "hello"},
      {"hello hello", {268, 268}, "hello hello"},
      {" hello", {259, 268}, " hello"},
      {"<s>hello</s> w", {1, 268, 2, 259, 270}, "hello  w"},
      {"\u20AC w\n", {259, 229, 133, 175, 270, 271}, "\u20AC w\n"},
      {"  w", {272, 270}, "  w"},
      {"", {}, ""},
      {"he<s>", {264, 261, 1}, "he"},
  };
  for (const auto& [text, ids, decoded] : cases) {
    INFO(text);
    CHECK(encode(tokenizer, text, true) == ids);
    CHECK(decode(tokenizer, ids) == decoded);
  }
}

TEST_CASE("plain text never becomes a special token, even where merges make it") {
  Json json =
      JsonObject{{"added_tokens", parsed(R"([{"id": 3, "content": "ab", "special": true}])")},
                 {"model", parsed(R"({"type": "BPE", "ignore_merges": true, "merges": ["a b"],
                           "vocab": {"a": 1, "b": 2, "ab": 3}})")}};
  const auto tokenizer = make(json);
  CHECK(encode(tokenizer, "ab") == Ids{1, 2});
  CHECK(encode(tokenizer, "ab", true) == Ids{3});
}

TEST_CASE("a tokenizer.json that breaks its format is an error") {
  Json json = byte_level_tokenizer();
  json.set("model", parsed(R"({"type": "Unigram", "vocab": []})"));
  CHECK(code_of(json) == StatusCode::unsupported);
  json.set("model", parsed(R"({"type": "BPE", "merges": []})"));
  CHECK(code_of(json) == StatusCode::malformed);
  json.set("model", parsed(R"({"type": "BPE", "vocab": {"a": -1}, "merges": []})"));
  CHECK(code_of(json) == StatusCode::malformed);
  json.set("model", parsed(R"({"type": "BPE", "vocab": {"a": 4000000000}, "merges": []})"));
  CHECK(code_of(json) == StatusCode::malformed);
  json.set("model", parsed(R"({"type": "BPE", "vocab": {"a": 1.5}, "merges": []})"));
  CHECK(code_of(json) == StatusCode::malformed);
  json.set("model", parsed(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["ab"]})"));
  CHECK(code_of(json) == StatusCode::malformed);
  json.set("model", parsed(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", 1]]})"));
  CHECK(code_of(json) == StatusCode::malformed);
  json.set("model",
           parsed(R"({"type": "BPE", "vocab": {}, "merges": [], "end_of_word_suffix": "_"})"));
  CHECK(code_of(json) == StatusCode::unsupported);
  json.set("model", parsed(R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})"));
  json.set("added_tokens", parsed(R"([{"id": 300000, "content": "x"}])"));
  CHECK(code_of(json) == StatusCode::malformed);
}

}  // namespace quire::text
