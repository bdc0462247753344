#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/json.h"
#include "catch.h"
#include "format/model_files.h"
#include "text/text_tokenizer.h"

namespace quire::text {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO("cannot read " << path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json read_json(const std::string& path) {
  auto json = parse_json(read_file(path));
  INFO(path << ": " << json.status().message());
  REQUIRE(json);
  return *json;
}

// One JSON object a line.
inline std::vector<Json> read_json_lines(const std::string& path) {
  std::vector<Json> out;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    auto json = parse_json(line);
    INFO(path << ": " << json.status().message());
    REQUIRE(json);
    out.push_back(std::move(*json));
  }
  return out;
}

inline std::vector<std::int32_t> ids_of(const Json& json) {
  std::vector<std::int32_t> ids;
  for (const Json& id : *json.array()) ids.push_back(static_cast<std::int32_t>(*id.integer()));
  return ids;
}

// A folder that an environment variable names; fails the test if it is not set.
inline std::string folder_from_environment(const char* variable, const char* holds) {
  const char* value = std::getenv(variable);
  INFO("set " << variable << " to the folder that holds " << holds);
  REQUIRE(value != nullptr);
  return value;
}

inline std::unique_ptr<TextTokenizer> open_tokenizer(const std::string& path) {
  auto files = format::ModelFiles::open(path, format::ModelParts::vocabulary_only);
  INFO(path << ": " << files.status().message());
  REQUIRE(files);
  auto tokenizer = TextTokenizer::create(*files);
  INFO(path << ": " << tokenizer.status().message());
  REQUIRE(tokenizer);
  return std::move(*tokenizer);
}

inline std::string real_model(const std::string& file) {
  return folder_from_environment("QUIRE_MODELS",
                                 "SmolLM2-135M-Instruct.Q4_1.gguf and "
                                 "gemma-3-270m-q4_k_m.gguf") +
         "/" + file;
}

inline std::string llama_cpp_vocabulary(const std::string& name) {
  return folder_from_environment("QUIRE_LLAMA_CPP_SOURCE", "llama.cpp's source tree") +
         "/models/ggml-vocab-" + name + ".gguf";
}

inline std::vector<std::int32_t> encode(const TextTokenizer& tokenizer, std::string_view text,
                                        bool parse_special = false) {
  auto ids = tokenizer.encode(text, parse_special);
  INFO(ids.status().message());
  REQUIRE(ids);
  return *ids;
}

inline std::string decode(const TextTokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += tokenizer.piece(id);
  if (tokenizer.strips_leading_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
  return bytes;
}

// A folder of files that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "quire-text-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code unused;
    std::filesystem::remove_all(path_, unused);
  }
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file << bytes;
    REQUIRE(file.good());
  }

 private:
  std::string path_;
};

inline Result<std::unique_ptr<TextTokenizer>> try_open(const ModelSource& source) {
  auto files = format::ModelFiles::open(source, format::ModelParts::vocabulary_only);
  if (!files) return files.status();
  return TextTokenizer::create(*files);
}

inline Result<std::unique_ptr<TextTokenizer>> try_open_bytes(const std::string& gguf) {
  return try_open(MemoryModel{std::as_bytes(std::span(gguf))});
}

}  // namespace quire::text
