#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "gguf_builder.h"
#include "proto_builder.h"
#include "text/model_proto.h"
#include "text_test_files.h"

// A small SentencePiece model; its ids are those that Python's sentencepiece 0.2.3 gives.
namespace quire::text {
namespace {

using Ids = std::vector<std::int32_t>;

struct Piece {
  std::string text;
  float score;
  int type;
};

std::vector<Piece> pieces() {
  std::vector<Piece> out = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
  for (int byte = 0; byte < 256; ++byte) {
    char spelled[8];
    std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    out.push_back({spelled, 0, 6});
  }
  float score = -1;
  for (const char* text :
       {"\u2581h", "el", "\u2581hel", "lo", "\u2581hello", "\u2581w", "\u2581\u2581", "hello"}) {
    out.push_back({text, score--, 1});
  }
  score = -20;
  for (const char* text : {"\u2581", "h", "e", "l", "o", "w", "\n"})
    out.push_back({text, score--, 1});
  out.push_back({"<b>", 0, 4});
  return out;
}

struct Flags {
  int model_type = 2;  // BPE
  bool prefix_space = true;
  bool removes_spaces = false;
};

std::string model_proto(const Flags& flags) {
  ProtoBuilder proto;
  for (const Piece& piece : pieces()) proto.piece(piece.text, piece.score, piece.type);
  proto.bytes(2, ProtoBuilder().integer(3, flags.model_type).integer(35, 1).take());
  proto.bytes(3, ProtoBuilder()
                     .bytes(1, "identity")
                     .integer(3, flags.prefix_space)
                     .integer(4, flags.removes_spaces)
                     .take());
  return proto.take();
}

std::unique_ptr<TextTokenizer> from_folder(const std::string& proto,
                                           const std::string& config = "{}") {
  TemporaryFolder folder;
  folder.write("config.json", "{}");
  folder.write("tokenizer.model", proto);
  folder.write("tokenizer_config.json", config);
  return open_tokenizer(folder.path());
}

GgufBuilder gguf_builder(bool prefix_space) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const Piece& piece : pieces()) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(piece.type);
  }
  GgufBuilder gguf;
  gguf.string("general.architecture", "llama")
      .string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", texts)
      .f32s("tokenizer.ggml.scores", scores)
      .i32s("tokenizer.ggml.token_type", types)
      .boolean("tokenizer.ggml.add_space_prefix", prefix_space);
  return gguf;
}

std::unique_ptr<TextTokenizer> from_gguf(bool prefix_space) {
  auto tokenizer = try_open_bytes(gguf_builder(prefix_space).bytes());
  INFO(tokenizer.status().message());
  REQUIRE(tokenizer);
  return std::move(*tokenizer);
}

StatusCode code_of(const std::string& proto) {
  return read_model_proto(proto, "tokenizer.model").status().code();
}

struct Case {
  std::string text;
  Ids ids;
};

const std::vector<Case> with_prefix = {
    {"hello", {263}},
    {"hello hello", {263, 263}},
    {" hello", {267, 263}},
    {"  hello  w ", {265, 263, 267, 264, 267}},
    {"\u20AC w\n", {267, 229, 133, 175, 264, 273}},
    {"", {}},
};
const std::vector<Case> without_prefix = {
    {"hello", {268, 260, 262}},
    {"hello hello", {268, 260, 262, 263}},
    {" hello", {263}},
    {"  hello  w ", {267, 263, 267, 264, 267}},
    {"\u20AC w\n", {229, 133, 175, 264, 273}},
    {"he <b>hello</b>", {268, 269, 267, 274, 268, 260, 262, 63, 50, 101, 65}},
};

void check(const TextTokenizer& tokenizer, const std::vector<Case>& cases) {
  for (const auto& [text, ids] : cases) {
    INFO(text);
    CHECK(encode(tokenizer, text) == ids);
    CHECK(decode(tokenizer, ids) == text);
  }
}

}  // namespace

TEST_CASE("tokenizer.model and a GGUF of its pieces give the reference's ids") {
  check(*from_folder(model_proto({})), with_prefix);
  check(*from_gguf(true), with_prefix);
  check(*from_folder(model_proto({.prefix_space = false})), without_prefix);
  check(*from_gguf(false), without_prefix);
}

TEST_CASE("a tokenizer.model may be a unigram model or remove spaces") {
  const auto unigram = from_folder(model_proto({.model_type = 1}));
  CHECK(encode(*unigram, " hello") == Ids{265, 266});
  CHECK(encode(*unigram, "he <b>hello</b>") == Ids{259, 269, 267, 274, 266, 63, 50, 101, 65});
  const auto removing = from_folder(model_proto({.removes_spaces = true}));
  CHECK(encode(*removing, "  hello  w ") == Ids{263, 264});
}

TEST_CASE("after a special token the prefix space follows the model's legacy setting") {
  const auto legacy = from_folder(model_proto({}));
  CHECK(encode(*legacy, "<s>hello", true) == Ids{1, 263});
  const auto newer = from_folder(model_proto({}), R"({"legacy": false})");
  CHECK(encode(*newer, "<s>hello", true) == Ids{1, 268, 260, 262});
  CHECK(encode(*newer, "hello", true) == Ids{263});
  CHECK(encode(*from_gguf(true), "<s>hello", true) == Ids{1, 263});
}

TEST_CASE("the leading space is stripped once in a text") {
  const auto tokenizer = from_gguf(true);
  CHECK(tokenizer->strips_leading_space());
  // "\u2581", "\u2581w": the pieces keep their spaces, the text loses one.
  CHECK(tokenizer->piece(267) == " ");
  CHECK(tokenizer->piece(264) == " w");
  CHECK(decode(*tokenizer, {267, 264, 264}) == " w w");
  CHECK_FALSE(from_gguf(false)->strips_leading_space());
}

TEST_CASE("byte pieces come out as bytes") {
  const auto tokenizer = from_gguf(true);
  CHECK(tokenizer->piece(3 + 0xE2) == "\xE2");
  CHECK(tokenizer->piece(3) == std::string_view("\0", 1));
  CHECK(encode(*tokenizer, std::string("h\0h", 3)) == Ids{259, 3, 268});
}

TEST_CASE("text that looks like a byte piece or a control token is text") {
  const auto tokenizer = from_gguf(false);
  CHECK(encode(*tokenizer, "<0x41>").size() > 1);
  CHECK(encode(*tokenizer, "<s>").size() == 3);
  CHECK(encode(*tokenizer, "<s>", true) == Ids{1});
  CHECK(tokenizer->add_special({5}) == Ids{1, 5});
}

TEST_CASE("added tokens of tokenizer_config.json extend tokenizer.model") {
  const auto tokenizer = from_folder(model_proto({.prefix_space = false}), R"({
      "add_bos_token": false, "eos_token": {"content": "<|im_end|>"},
      "added_tokens_decoder": {"276": {"content": "<|im_end|>", "special": true},
                               "275": {"content": "hellohello", "special": false}}})");
  CHECK(tokenizer->vocabulary_size() == 277);
  CHECK(encode(*tokenizer, "hellohello<|im_end|>", true) == Ids{275, 276});
  CHECK(tokenizer->eos() == 276);
  CHECK(tokenizer->add_special({5}) == Ids{5});
}

TEST_CASE("vocabularies without an unknown piece or with duplicates load") {
  GgufBuilder gguf;
  gguf.string("general.architecture", "llama")
      .string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"a", "a", "b", "", std::string("\0", 1), "\xFF", "ab"})
      .f32s("tokenizer.ggml.scores", {-1, -2, -3, -4, -5, -6, 0})
      .boolean("tokenizer.ggml.add_space_prefix", false);
  auto tokenizer = try_open_bytes(gguf.bytes());
  INFO(tokenizer.status().message());
  REQUIRE(tokenizer);
  CHECK(encode(**tokenizer, "abac") == Ids{6, 0});  // no piece spells "c"
}

TEST_CASE("byte pieces are parsed strictly") {
  for (const char* text : {"<0x-1>", "<0x1>", "<0x100>", "<0xGG>", "0x41", "<0X41>", "<0x41> "}) {
    INFO(text);
    GgufBuilder gguf;
    gguf.string("general.architecture", "llama")
        .string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", {"a", text})
        .i32s("tokenizer.ggml.token_type", {1, 6})
        .f32s("tokenizer.ggml.scores", {0, 0});
    CHECK(try_open_bytes(gguf.bytes()).status().code() == StatusCode::malformed);
    CHECK(code_of(ProtoBuilder().piece(text, 0, 6).take()) == StatusCode::malformed);
  }
}

TEST_CASE("pieces that the library cannot take are refused") {
  CHECK(code_of(ProtoBuilder().piece(std::string(100'000, 'a'), 0, 1).take()) ==
        StatusCode::malformed);
  CHECK(code_of(ProtoBuilder().piece(std::string("a\0", 2), 0, 1).take()) == StatusCode::malformed);
  CHECK(code_of(ProtoBuilder().piece("", 0, 1).take()) == StatusCode::malformed);
  CHECK(code_of(ProtoBuilder().piece("\xC0\x80", 0, 1).take()) == StatusCode::malformed);
  CHECK(code_of(ProtoBuilder().piece("a", std::nanf(""), 1).take()) == StatusCode::malformed);
  CHECK(code_of(ProtoBuilder().piece("a", std::numeric_limits<float>::infinity(), 1).take()) ==
        StatusCode::malformed);
  CHECK(code_of(ProtoBuilder().piece("a", 0, 7).take()) == StatusCode::malformed);
  CHECK(code_of("") == StatusCode::malformed);
  CHECK(code_of("\x0A\xFF\xFF\xFF\xFF\x0F") == StatusCode::malformed);
  CHECK(code_of("\x0A\x05\x0A\x63") == StatusCode::malformed);
  const std::string all = model_proto({});
  for (std::size_t size = 0; size < all.size(); size += 97) {
    (void)read_model_proto(std::string_view(all).substr(0, size), "cut");  // must not crash
  }
}

TEST_CASE("a normaliser map that points out of bounds is refused") {
  const auto with_map = [](const std::vector<std::uint32_t>& units, std::string_view texts) {
    std::string map(4 + units.size() * 4, '\0');
    const auto size = static_cast<std::uint32_t>(units.size() * 4);
    std::memcpy(map.data(), &size, 4);
    std::memcpy(map.data() + 4, units.data(), size);
    map += texts;
    return code_of(
        ProtoBuilder().piece("<unk>", 0, 2).bytes(3, ProtoBuilder().bytes(2, map).take()).take());
  };
  const std::string_view texts("x\0", 2);
  std::vector<std::uint32_t> units(256, 0);
  CHECK(with_map(units, texts) == StatusCode::ok);
  CHECK(with_map(units, "x") == StatusCode::malformed);  // no end
  CHECK(with_map({units.begin(), units.begin() + 100}, texts) == StatusCode::malformed);
  units[0] = 300u << 10;  // children at 300
  CHECK(with_map(units, texts) == StatusCode::malformed);
  units[0] = 1u << 31;  // a leaf as the root
  CHECK(with_map(units, texts) == StatusCode::malformed);
  units[0] = (1u << 10) | (1u << 8);  // a value at unit 1
  units[1] = (1u << 31) | 1;
  CHECK(with_map(units, texts) == StatusCode::ok);
  units[1] = (1u << 31) | 2;
  CHECK(with_map(units, texts) == StatusCode::malformed);
}

}  // namespace quire::text
