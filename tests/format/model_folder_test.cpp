#include "model_files_fixture.h"

using namespace quire;
using namespace quire::format;
using namespace quire::format::test;
namespace fs = std::filesystem;

TEST_CASE("a sharded folder has the tensors of all shards") {
  const std::string path = test_data("tiny/llama_sharded");
  const Result<ModelFiles> model = ModelFiles::open(path);
  REQUIRE(model.ok());
  CHECK(model->tensors().size() == 30);
  CHECK(model->file_bytes() == 99048 + 108584 + 99496);
  CHECK(model->find("lm_head.weight")->rows() == 320);
  CHECK(model->mapped());
  const Result<ModelFiles> vocabulary = ModelFiles::open(path, ModelParts::vocabulary_only);
  REQUIRE(vocabulary.ok());
  CHECK(vocabulary->tensors().empty());
  CHECK_FALSE(vocabulary->mapped());
  CHECK(vocabulary->tokenizer_json() != nullptr);
}

// sgl-project/sglang issue 32279: an absent shard was noticed only while serving.

TEST_CASE("an index that does not fit its shards is refused by the shard or the tensor") {
  const std::string shard_name = "model-00002-of-00003.safetensors";
  const TemporaryFolder folder;
  folder.copy("tiny/llama_sharded");
  const std::string index = folder.path("model.safetensors.index.json");
  REQUIRE(ModelFiles::open(folder.path()).ok());

  const std::string shard = read_file(folder.path(shard_name));
  folder.write(shard_name, shard.substr(0, shard.size() - 1));
  check_contains(refused(folder.path()), shard_name + ": tensor ");
  fs::remove(folder.path(shard_name));
  check_contains(refused(folder.path(), StatusCode::not_found), shard_name);
  CHECK(ModelFiles::open(folder.path(), ModelParts::vocabulary_only).ok());
  fs::copy(folder.path("model-00001-of-00003.safetensors"), folder.path(shard_name));
  check_contains(refused(folder.path()), "another file of the model has it too");
  folder.write(shard_name, shard);

  const std::string good = read_file(index);
  replace_in_file(index, "\"lm_head.weight\"", "\"absent.weight\"");
  check_contains(refused(folder.path()),
                 "tensor absent.weight: it is not in model-00003-of-00003.safetensors");
  folder.write("model.safetensors.index.json", good);
  replace_in_file(index, "\"lm_head.weight\": \"model-00003", "\"lm_head.weight\": \"model-00001");
  check_contains(refused(folder.path()),
                 "tensor lm_head.weight: it is not in model-00001-of-00003.safetensors");
  folder.write("model.safetensors.index.json", good);
  replace_in_file(index, "\"model-00003-of-00003.safetensors\"",
                  "\"../model-00003-of-00003.safetensors\"");
  check_contains(refused(folder.path()), "is not the name of a .safetensors file in this folder");
}

TEST_CASE("a folder needs its configuration and its weights") {
  const TemporaryFolder folder;
  check_contains(refused(folder.path(), StatusCode::not_found), "config.json");
  folder.write("config.json", "{}");
  check_contains(refused(folder.path(), StatusCode::not_found), "neither model.safetensors nor");
  CHECK(ModelFiles::open(folder.path(), ModelParts::vocabulary_only).ok());
  folder.write("config.json", "[]");
  check_contains(refused(folder.path()), "config.json: is no JSON object");
  folder.write("config.json", "{\"a\":1,}");
  check_contains(refused(folder.path()), "config.json: JSON: byte");
  folder.write("config.json", "{\"a\":\"" + std::string(17u << 20, 'x') + "\"}");
  check_contains(refused(folder.path()), "config.json: 17825800 bytes, the most is 16777216");
}

TEST_CASE("the optional files of a folder are read as they are there") {
  const TemporaryFolder folder;
  folder.write("config.json", "{\"model_type\":\"x\"}");
  const auto open = [&] { return ModelFiles::open(folder.path(), ModelParts::vocabulary_only); };
  Result<ModelFiles> model = open();
  REQUIRE(model.ok());
  CHECK(model->generation_config() == nullptr);
  CHECK(model->tokenizer_json() == nullptr);
  CHECK(model->tokenizer_config() == nullptr);
  CHECK(model->sentencepiece_model() == nullptr);
  CHECK(model->chat_template() == nullptr);

  folder.write("generation_config.json", R"({"eos_token_id":[1,2]})");
  folder.write("tokenizer.model", std::string_view("\0\1\2", 3));
  folder.write("special_tokens_map.json", R"({"eos_token":"map"})");
  model = open();
  REQUIRE(model.ok());
  CHECK(model->generation_config()->find("eos_token_id")->array()->size() == 2);
  CHECK(*model->sentencepiece_model() == std::string("\0\1\2", 3));
  CHECK(*model->tokenizer_config()->find("eos_token")->string() == "map");

  const std::string list =
      R"([{"name":"tool_use","template":"T"},{"name":"default","template":"D"}])";
  folder.write("tokenizer_config.json", R"({"eos_token":"config","chat_template":)" + list + "}");
  model = open();
  REQUIRE(model.ok());
  CHECK(*model->tokenizer_config()->find("eos_token")->string() == "config");
  CHECK(*model->chat_template() == "D");

  folder.write("tokenizer_config.json",
               R"({"chat_template":[{"name":"tool_use","template":"T"}]})");
  CHECK(open()->chat_template() == nullptr);
  folder.write("tokenizer_config.json", R"({"chat_template":null})");
  CHECK(open()->chat_template() == nullptr);
  folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"default"}]})");
  check_contains(open().status().message(), "tokenizer_config.json: chat_template: an item");
  folder.write("tokenizer_config.json", R"({"chat_template":7})");
  check_contains(open().status().message(), "tokenizer_config.json: chat_template: neither");

  folder.write("chat_template.jinja", "J");
  CHECK(*open()->chat_template() == "J");
}
