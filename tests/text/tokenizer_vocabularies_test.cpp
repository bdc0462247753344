#include <sstream>

#include "text_test_files.h"

// llama.cpp keeps, for each vocabulary, texts and the ids that Hugging Face's tokenizers give.
namespace quire::text {
namespace {

std::vector<std::string> read_inputs(const std::string& path) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string all = read_file(path);
  std::vector<std::string> inputs;
  std::size_t at = 0;
  for (std::size_t end; (end = all.find(separator, at)) != std::string::npos;
       at = end + separator.size()) {
    inputs.push_back(all.substr(at, end - at));
  }
  if (at < all.size()) inputs.push_back(all.substr(at));  // some end without a separator
  return inputs;
}

std::vector<std::vector<std::int32_t>> read_outputs(const std::string& path) {
  std::vector<std::vector<std::int32_t>> outputs;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    outputs.emplace_back();
    for (std::int32_t id; numbers >> id;) outputs.back().push_back(id);
  }
  return outputs;
}

}  // namespace

TEST_CASE("the vocabularies that llama.cpp tests give the same ids") {
  const std::string name =
      GENERATE("llama-bpe", "qwen2", "qwen35", "gpt-2", "deepseek-llm", "deepseek-coder", "falcon",
               "starcoder", "command-r", "refact", "mpt", "llama-spm", "phi-3", "gemma-4");
  INFO(name);
  const std::string path = llama_cpp_vocabulary(name);
  const auto tokenizer = open_tokenizer(path);
  const auto inputs = read_inputs(path + ".inp");
  const auto outputs = read_outputs(path + ".out");
  REQUIRE(inputs.size() >= 40);
  REQUIRE(outputs.size() == inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO("input " << i << ": " << inputs[i]);
    CHECK(encode(*tokenizer, inputs[i]) == outputs[i]);
  }
}

TEST_CASE("byte order marks, CRLF, joiners and combining marks give the reference's ids") {
  const auto llama = open_tokenizer(llama_cpp_vocabulary("llama-bpe"));
  const auto qwen = open_tokenizer(llama_cpp_vocabulary("qwen2"));
  const auto cases =
      read_json_lines(std::string(QUIRE_TEST_DATA) + "/tokenizer/vocabularies.jsonl");
  REQUIRE(cases.size() == 28);
  for (const Json& entry : cases) {
    const std::string& name = *entry.find("tokenizer")->string();
    const std::string& text = *entry.find("text")->string();
    INFO(name << ": " << text);
    const TextTokenizer& tokenizer = name == "llama-bpe" ? *llama : *qwen;
    const auto ids = ids_of(*entry.find("ids"));
    CHECK(encode(tokenizer, text) == ids);
    CHECK(decode(tokenizer, ids) == text);
  }
}

}  // namespace quire::text
