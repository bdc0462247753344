#include <array>
#include <span>

#include "base/hash.h"
#include "text/detokenizer.h"
#include "text_test_files.h"

// Ids from tests/data/tokenizer with the vocabularies of the real models.
namespace quire::text {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string case_text(const Json& entry) {
  if (const Json* text = entry.find("text")) return *text->string();
  if (const Json* hex = entry.find("hex")) return from_hex(*hex->string());
  std::string text;
  for (std::int64_t i = 0; i < *entry.find("count")->integer(); ++i) {
    text += *entry.find("unit")->string();
  }
  return text;
}

std::string sha256_of(const std::vector<std::int32_t>& ids) {
  const Digest digest = Sha256().update(std::as_bytes(std::span(ids))).finish();
  std::string hex;
  for (const auto byte : digest)
    hex += "0123456789abcdef"[byte >> 4], hex += "0123456789abcdef"[byte & 15];
  return hex;
}

void check_cases(const TextTokenizer& tokenizer, const std::string& name, std::size_t count) {
  const auto cases =
      read_json_lines(std::string(QUIRE_TEST_DATA) + "/tokenizer/" + name + ".jsonl");
  CHECK(cases.size() == count);
  for (const Json& entry : cases) {
    INFO(*entry.find("id")->string());
    const std::string text = case_text(entry);
    const auto ids = encode(tokenizer, text);
    const auto special_ids = encode(tokenizer, text, true);
    if (const Json* sha256 = entry.find("sha256")) {
      CHECK(static_cast<std::int64_t>(ids.size()) == *entry.find("n")->integer());
      CHECK(sha256_of(ids) == *sha256->string());
      CHECK(decode(tokenizer, ids) == text);
      continue;
    }
    const bool ill_formed = entry.find("hex") != nullptr;
    const auto expected = ids_of(*entry.find(ill_formed ? "ids_replaced" : "ids"));
    CHECK(ids == expected);
    const Json* special = entry.find("ids_parse_special");
    CHECK(special_ids == (special ? ids_of(*special) : expected));
    const Json* decoded = entry.find(ill_formed ? "replaced" : "decodes_to");
    CHECK(replace_ill_formed(decode(tokenizer, ids)) == (decoded ? *decoded->string() : text));
  }
}

void check_streams(const TextTokenizer& tokenizer, const std::string& name) {
  int count = 0;
  for (const Json& entry :
       read_json_lines(std::string(QUIRE_TEST_DATA) + "/tokenizer/detok.jsonl")) {
    if (*entry.find("tokenizer")->string() != name) continue;
    INFO(*entry.find("id")->string());
    ++count;
    const auto ids = ids_of(*entry.find("ids"));
    const auto& deltas = *entry.find("deltas")->array();
    const auto& pieces = *entry.find("pieces_hex")->array();
    REQUIRE(deltas.size() == ids.size() + 1);
    Utf8Stream stream;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      CHECK(tokenizer.piece(ids[i]) == from_hex(*pieces[i].string()));
      CHECK(stream.feed(tokenizer.piece(ids[i])) == *deltas[i].string());
    }
    CHECK(stream.finish() == *deltas.back().string());
  }
  CHECK(count == 4);
}

}  // namespace

TEST_CASE("SmolLM2 ids and streams are those of the reference tokenizers") {
  const auto tokenizer = open_tokenizer(real_model("SmolLM2-135M-Instruct.Q4_1.gguf"));
  CHECK(tokenizer->vocabulary_size() == 49152);
  check_cases(*tokenizer, "smollm2", 95);
  check_streams(*tokenizer, "smollm2");
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(tokenizer->end_tokens() == std::vector<std::int32_t>{0, 2});
  CHECK(tokenizer->add_special({5}) == std::vector<std::int32_t>{5});
}

TEST_CASE("Gemma 3 ids and streams are those of the reference tokenizers") {
  const auto tokenizer = open_tokenizer(real_model("gemma-3-270m-q4_k_m.gguf"));
  CHECK(tokenizer->vocabulary_size() == 262144);
  check_cases(*tokenizer, "gemma3", 93);
  check_streams(*tokenizer, "gemma3");
  CHECK(tokenizer->bos() == 2);
  CHECK(tokenizer->end_tokens() == std::vector<std::int32_t>{1, 106});
  CHECK(tokenizer->add_special({5}) == std::vector<std::int32_t>{2, 5});
  CHECK(tokenizer->add_special({2, 5}) == std::vector<std::int32_t>{2, 5});
}

TEST_CASE("Llama 3 streams whole characters") {
  check_streams(*open_tokenizer(llama_cpp_vocabulary("llama-bpe")), "llama-bpe");
}

}  // namespace quire::text
