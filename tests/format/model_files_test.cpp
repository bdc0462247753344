#include "model_files_fixture.h"

using namespace quire;
using namespace quire::format;
using namespace quire::format::test;
namespace fs = std::filesystem;

TEST_CASE("every malformed golden that breaks the format is refused by the name of its bad part") {
  const std::string folder = test_data("tiny/malformed/");
  CHECK(ModelFiles::open(folder + "good.gguf").ok());
  // These are well-formed files; what is wrong shows when the model is built or runs.
  const std::vector<std::string> well_formed = {"head_count_zero.gguf", "output_norm_missing.gguf",
                                                "embedding_rows.gguf", "nan_weight.gguf",
                                                "scores_uint8.gguf"};
  const Result<Json> manifest = parse_json(read_file(folder + "manifest.json"));
  REQUIRE(manifest.ok());
  REQUIRE(manifest->array()->size() == 21);
  for (const Json& entry : *manifest->array()) {
    const std::string& file = *entry.find("file")->string();
    INFO(file);
    const Result<ModelFiles> model = ModelFiles::open(folder + file);
    if (std::find(well_formed.begin(), well_formed.end(), file) != well_formed.end()) {
      CHECK(model.ok());
      continue;
    }
    REQUIRE_FALSE(model.ok());
    const std::string& item = *entry.find("item")->string();  // "a", or "a or b"
    const std::size_t alternative = item.find(" or ");
    const std::string& message = model.status().message();
    const bool named = message.find(item.substr(0, alternative)) != std::string::npos ||
                       (alternative != std::string::npos &&
                        message.find(item.substr(alternative + 4)) != std::string::npos);
    INFO(message);
    CHECK(named);
    check_contains(message, file);
  }
}

// llama.cpp issue 26690: scores typed UINT8 were read as floats, past their end.

TEST_CASE("scores of the wrong type are refused when they are read") {
  const Result<ModelFiles> model = ModelFiles::open(test_data("tiny/malformed/scores_uint8.gguf"));
  REQUIRE(model.ok());
  const Result<std::vector<float>> scores = model->gguf()->reals("tokenizer.ggml.scores");
  REQUIRE_FALSE(scores.ok());
  check_contains(scores.status().message(), "tokenizer.ggml.scores: is an array of integers");
}

TEST_CASE("all tiny models open, as GGUF and as a folder, and their embeddings agree") {
  for (const fs::directory_entry& folder : fs::directory_iterator(test_data("tiny"))) {
    if (!fs::exists(folder.path() / "model.safetensors")) continue;
    INFO(folder.path().string());
    const Result<ModelFiles> gguf = ModelFiles::open((folder.path() / "model.gguf").string());
    const Result<ModelFiles> hf = ModelFiles::open(folder.path().string());
    REQUIRE(gguf.ok());
    REQUIRE(hf.ok());
    CHECK(gguf->gguf() != nullptr);
    CHECK(gguf->config() == nullptr);
    CHECK(hf->gguf() == nullptr);
    CHECK(hf->config()->find("model_type") != nullptr);
    CHECK(hf->tokenizer_json()->find("model") != nullptr);
    CHECK(hf->tokenizer_config()->find("eos_token") != nullptr);
    REQUIRE(hf->chat_template() != nullptr);
    CHECK(*hf->chat_template() == *gguf->chat_template());
    CHECK(gguf->mapped());
    CHECK(gguf->file_bytes() == fs::file_size(folder.path() / "model.gguf"));
    CHECK(hf->file_bytes() == fs::file_size(folder.path() / "model.safetensors"));
    const TensorView* a = gguf->find("token_embd.weight");
    const TensorView* b = hf->find("model.embed_tokens.weight");
    REQUIRE(a != nullptr);
    REQUIRE(b != nullptr);
    CHECK(a->rows() == b->rows());
    CHECK(a->columns() == b->columns());
    if (a->type == b->type)
      CHECK(std::equal(a->bytes.begin(), a->bytes.end(), b->bytes.begin(), b->bytes.end()));
    CHECK(gguf->find("absent") == nullptr);
  }
}

TEST_CASE("an empty memory span and files that are no model are refused") {
  check_contains(refused(MemoryModel{}), "memory: header");
  const TemporaryFolder folder;
  check_contains(refused(folder.write("empty.gguf", "")),
                 "empty.gguf: header: needs 24 bytes, the file has 0");
  check_contains(refused(folder.write("text.gguf", "Hello, this is a text.")), "magic");
  refused(folder.path("absent.gguf"), StatusCode::not_found);
  refused("/dev/null", StatusCode::io_error);
  refused("", StatusCode::not_found);
}

TEST_CASE("a GGUF may hold a vocabulary only") {
  GgufWriter w;
  w.add_string("general.architecture", "llama").add_strings("tokenizer.ggml.tokens", {"a", "b"});
  const std::string bytes = w.bytes();
  for (ModelParts parts : {ModelParts::everything, ModelParts::vocabulary_only}) {
    const Result<ModelFiles> model = ModelFiles::open(MemoryModel{bytes_of(bytes)}, parts);
    REQUIRE(model.ok());
    CHECK(model->tensors().empty());
    CHECK(model->chat_template() == nullptr);
    CHECK(model->gguf()->strings("tokenizer.ggml.tokens")->size() == 2);
  }
}

TEST_CASE("a chat template that is no string is refused") {
  GgufWriter w;
  w.add_u32("tokenizer.chat_template", 1);
  const std::string bytes = w.bytes();
  check_contains(refused(MemoryModel{bytes_of(bytes)}), "tokenizer.chat_template");
}

TEST_CASE("a split GGUF has the tensors of all its parts") {
  const std::string first = test_data("tiny/llama_sharded/model-00001-of-00004.gguf");
  const Result<ModelFiles> model = ModelFiles::open(first);
  REQUIRE(model.ok());
  CHECK(model->tensors().size() == 30);
  CHECK(model->name() == first);
  CHECK(model->file_bytes() == 121984 + 71040 + 70784 + 49696);
  CHECK(model->gguf()->strings("tokenizer.ggml.tokens")->size() == 320);
  for (const char* name :
       {"token_embd.weight", "blk.1.ffn_down.weight", "blk.2.attn_v.weight", "output.weight"}) {
    CHECK(model->find(name) != nullptr);
  }
  const Result<ModelFiles> vocabulary = ModelFiles::open(first, ModelParts::vocabulary_only);
  REQUIRE(vocabulary.ok());
  CHECK(vocabulary->file_bytes() == 121984);
}

TEST_CASE("a split GGUF with a wrong, missing or repeated part is refused by its name") {
  const TemporaryFolder folder;
  folder.copy("tiny/llama_sharded");
  const std::string first = folder.path("model-00001-of-00004.gguf");
  const std::string third = folder.path("model-00003-of-00004.gguf");
  REQUIRE(ModelFiles::open(first).ok());
  check_contains(refused(third, StatusCode::invalid_argument),
                 "split.no is 2: open the first part");

  const std::string kept = read_file(third);
  fs::remove(third);
  check_contains(refused(first, StatusCode::not_found), "model-00003-of-00004.gguf");
  CHECK(ModelFiles::open(first, ModelParts::vocabulary_only).ok());
  fs::copy(folder.path("model-00002-of-00004.gguf"), third);
  check_contains(refused(first),
                 "model-00003-of-00004.gguf: split.no 1 of split.count 4, wanted is 2 of 4");
  folder.write("model-00003-of-00004.gguf", kept.substr(0, kept.size() - 300));
  check_contains(refused(first), "model-00003-of-00004.gguf: tensor ");
  GgufWriter unsplit;
  folder.write("model-00003-of-00004.gguf", unsplit.bytes());
  check_contains(refused(first), "model-00003-of-00004.gguf: split.no 0 of split.count 1");

  const std::string renamed = folder.path("renamed.gguf");
  fs::copy(first, renamed);
  check_contains(refused(renamed), "renamed.gguf: split.count is 4");
  const std::string bytes = read_file(first);
  check_contains(refused(MemoryModel{bytes_of(bytes)}, StatusCode::unsupported),
                 "memory: part 1 of 4");
  check_contains(refused(callback_of(bytes), StatusCode::unsupported), "callback: part 1 of 4");
}

TEST_CASE("the parts of a split must have different tensors, as many as the first part says") {
  const auto part = [](std::uint32_t number, std::uint32_t total, const char* tensor) {
    GgufWriter w;
    w.add("split.no", GgufWriter::u16, GgufWriter::raw(static_cast<std::uint16_t>(number)));
    w.add("split.count", GgufWriter::u16, GgufWriter::raw(std::uint16_t{2}));
    w.add("split.tensors.count", GgufWriter::i32, GgufWriter::raw(total));
    w.add_tensor(tensor, {1}, 0, "abcd");
    return w.bytes();
  };
  const TemporaryFolder folder;
  const std::string first = folder.write("m-00001-of-00002.gguf", part(0, 2, "t"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, "u"));
  CHECK(ModelFiles::open(first).ok());
  folder.write("m-00002-of-00002.gguf", part(1, 2, "t"));
  check_contains(refused(first),
                 "m-00002-of-00002.gguf: tensor t: another file of the model has it too");
  folder.write("m-00001-of-00002.gguf", part(0, 3, "v"));
  check_contains(refused(first), "split.tensors.count is 3, the 2 parts hold 2 tensors");
}
