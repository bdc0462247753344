#include "format/model_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "catch.h"
#include "check_contains.h"
#include "gguf_writer.h"
#include "test_files.h"

using namespace quire;
using namespace quire::format;
namespace fs = std::filesystem;

namespace {

std::string refused(const ModelSource& source, StatusCode code = StatusCode::malformed,
                    ModelParts parts = ModelParts::everything) {
  const Result<ModelFiles> model = ModelFiles::open(source, parts);
  REQUIRE_FALSE(model.ok());
  CHECK(model.status().code() == code);
  return model.status().message();
}

bool same(const TensorView& a, const TensorView& b) {
  return a.name == b.name && a.type == b.type && a.dimensions == b.dimensions &&
         a.shape == b.shape &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

bool same_tensors(const ModelFiles& a, const ModelFiles& b) {
  return std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), b.tensors().end(),
                    same);
}

CallbackModel callback_of(const std::string& bytes) {
  return {bytes.size(), [&bytes](std::uint64_t offset, std::span<std::byte> into) {
            if (offset > bytes.size() || into.size() > bytes.size() - offset) return false;
            std::memcpy(into.data(), bytes.data() + offset, into.size());
            return true;
          }};
}

void replace_in_file(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

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

TEST_CASE("a model in memory and one behind a callback equal the file") {
  const std::string path = test_data("tiny/quant/model-Q4_K_M.gguf");
  const std::string bytes = read_file(path);
  const Result<ModelFiles> file = ModelFiles::open(path);
  const Result<ModelFiles> memory = ModelFiles::open(MemoryModel{bytes_of(bytes)});
  Result<ModelFiles> callback = ModelFiles::open(callback_of(bytes));
  REQUIRE(file.ok());
  REQUIRE(memory.ok());
  REQUIRE(callback.ok());
  const ModelFiles moved = *std::move(callback);
  CHECK(same_tensors(*file, *memory));
  CHECK(same_tensors(*file, moved));
  CHECK(file->tensors().size() > 10);
  CHECK(*memory->gguf()->strings("tokenizer.ggml.tokens") ==
        *file->gguf()->strings("tokenizer.ggml.tokens"));
  CHECK(*moved.gguf()->strings("tokenizer.ggml.tokens") ==
        *file->gguf()->strings("tokenizer.ggml.tokens"));
  check_views(memory->tensors(), bytes_of(bytes));  // no copy
  CHECK_FALSE(memory->mapped());
  CHECK_FALSE(moved.mapped());
  CHECK(moved.file_bytes() == bytes.size());
  CHECK(file->name() == path);
  CHECK(memory->name() == "memory");
  CHECK(moved.name() == "callback");
}

TEST_CASE("a callback that fails or throws is an I/O error with the offset") {
  const std::string bytes = read_file(test_data("tiny/malformed/good.gguf"));
  CallbackModel model = callback_of(bytes);
  model.size = bytes.size() + 1;
  check_contains(refused(model, StatusCode::io_error),
                 "callback: cannot read 24321 bytes at offset 16384: it returned false");
  model.read = [](std::uint64_t, std::span<std::byte>) -> bool {
    throw std::runtime_error("no key");
  };
  check_contains(refused(model, StatusCode::io_error), "it threw: no key");
  model.read = [](std::uint64_t, std::span<std::byte>) -> bool { throw 7; };
  check_contains(refused(model, StatusCode::io_error), "it threw");
  model.read = nullptr;
  check_contains(refused(model, StatusCode::invalid_argument), "no read function");
}

TEST_CASE("a callback model is read whole, in pieces, each byte of it once") {
  // 40 MiB of one tensor: more than two pieces.
  GgufWriter w;
  std::string data(40u << 20, '\0');
  for (std::size_t i = 0; i < data.size(); i += 4096) data[i] = static_cast<char>(i >> 12);
  w.add_tensor("t", {data.size() / 4}, 0, data);
  const std::string bytes = w.bytes();
  CallbackModel model = callback_of(bytes);
  std::uint64_t next = 0;
  bool in_order = true;
  model.read = [&, inner = model.read](std::uint64_t offset, std::span<std::byte> into) {
    in_order = in_order && offset == next;
    next = offset + into.size();
    return inner(offset, into);
  };
  const Result<ModelFiles> opened = ModelFiles::open(model);
  REQUIRE(opened.ok());
  CHECK(in_order);
  CHECK(next == bytes.size());
  CHECK(std::memcmp(opened->find("t")->bytes.data(), data.data(), data.size()) == 0);
}

TEST_CASE("a callback model whose size or start is wrong asks for no memory") {
  CallbackModel model;
  model.size = std::uint64_t{1} << 62;
  model.read = [](std::uint64_t, std::span<std::byte> into) {
    std::fill(into.begin(), into.end(), std::byte{'x'});
    return true;
  };
  take_largest_allocation();
  check_contains(refused(model), "callback: magic");
  CHECK(take_largest_allocation() < 65536);
  model.size = 3;
  check_contains(refused(model), "callback: header");
  model.size = 0;
  check_contains(refused(model), "callback: header: needs 24 bytes, the file has 0");
  model.size = UINT64_MAX;
  model.read = [](std::uint64_t, std::span<std::byte> into) {
    std::memcpy(into.data(), "GGUF", 4);
    return true;
  };
  refused(model, StatusCode::out_of_memory);
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

TEST_CASE("a bad header behind a callback is found before the model is read") {
  const std::string good = read_file(test_data("tiny/llama/model.gguf"));
  const auto bytes_read = [](const std::string& bytes, std::uint64_t size, StatusCode code) {
    std::uint64_t read = 0;
    CallbackModel callback;
    callback.size = size;  // as if gigabytes of data followed
    callback.read = [&](std::uint64_t offset, std::span<std::byte> into) {
      read += into.size();
      for (std::size_t i = 0; i < into.size(); ++i) {
        into[i] = static_cast<std::byte>(offset + i < bytes.size() ? bytes[offset + i] : 0);
      }
      return true;
    };
    const Result<ModelFiles> model = ModelFiles::open(callback);
    INFO(model.status().message());
    CHECK(model.status().code() == code);
    return read;
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;
  std::string bytes = good;
  bytes[4] = 9;  // the version
  CHECK(bytes_read(bytes, kHuge, StatusCode::unsupported) == 4096);
  bytes = good;
  bytes[0] = 'x';
  CHECK(bytes_read(bytes, kHuge, StatusCode::malformed) == 4096);
  // A tensor whose data would lie behind the end: little more than the header is read.
  const std::uint64_t header = bytes_read(good, good.size() - 1, StatusCode::malformed);
  CHECK(header <= 65536);
  CHECK(header < good.size() / 4);
  // A value type that does not exist, in the middle of the header.
  bytes = good;
  const std::size_t key = bytes.find("tokenizer.ggml.token_type");
  REQUIRE(key != std::string::npos);
  bytes[key + 25] = '\x63';
  CHECK(bytes_read(bytes, kHuge, StatusCode::malformed) <= 65536);
  // A good one is read once.
  CHECK(bytes_read(good, good.size(), StatusCode::ok) == good.size());
  CHECK(bytes_read(good.substr(0, 3), 3, StatusCode::malformed) == 3);
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
