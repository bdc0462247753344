#include "text_test_files.h"

// The tiny models of tests/data, each as a Hugging Face folder and as GGUF.
namespace quire::text {

TEST_CASE("tiny models encode as the reference, from GGUF and from a folder") {
  const std::string folder =
      std::string(QUIRE_TEST_DATA) + "/tiny/" + GENERATE("llama", "gemma3", "phi3");
  const Json expected = read_json(folder + "/expected.json");
  for (const std::string& path : {folder, folder + "/model.gguf"}) {
    INFO(path);
    const auto tokenizer = open_tokenizer(path);
    for (const Json& entry : *expected.find("tokenizer")->array()) {
      const std::string& text = *entry.find("text")->string();
      INFO(text);
      const auto ids = ids_of(*entry.find("ids"));
      CHECK(encode(*tokenizer, text, true) == ids);
      CHECK(tokenizer->add_special(ids) == ids);
    }
    CHECK(tokenizer->bos() == 312);
    CHECK(tokenizer->eos() == 313);
    CHECK(tokenizer->end_tokens() == std::vector<std::int32_t>{313, 315});
    CHECK(tokenizer->special_text(315) == "<|im_end|>");
    CHECK(tokenizer->is_special(315));
    CHECK(tokenizer->piece(315).empty());
    CHECK(tokenizer->piece(-1).empty());
    CHECK(tokenizer->piece(100000).empty());
  }
  CHECK(open_tokenizer(folder)->vocabulary_size() == 316);
  CHECK(open_tokenizer(folder + "/model.gguf")->vocabulary_size() == 320);
}

TEST_CASE("a model without a tokenizer takes ids only") {
  const auto tokenizer =
      open_tokenizer(std::string(QUIRE_TEST_DATA) + "/tiny/quant/model-F16.gguf");
  CHECK(tokenizer->vocabulary_size() == 96);
  const auto ids = tokenizer->encode("a", false);
  CHECK(ids.status().code() == StatusCode::unsupported);
  CHECK(tokenizer->piece(5).empty());
  CHECK(tokenizer->end_tokens().empty());
}

}  // namespace quire::text
