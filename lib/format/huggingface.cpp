#include "format/huggingface.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "format/printable.h"
#include "format/safetensors.h"

namespace quire::format {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;
constexpr std::size_t kMostConfigBytes = 16 * kMega;
constexpr std::size_t kMostTemplateBytes = 4 * kMega;
constexpr std::size_t kMostIndexBytes = 64 * kMega;
constexpr std::size_t kMostTokenizerBytes = 256 * kMega;  // the largest published are near 35 MB
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

std::string join(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The file if it exists; fails if it cannot be read or has more than `most` bytes.
Result<std::optional<MappedFile>> open_optional(const std::string& path, std::size_t most) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) {
    if (file.status().code() == StatusCode::not_found) return std::optional<MappedFile>();
    return file.status();
  }
  const std::size_t size = file->bytes().size();
  if (size > most)
    return error(StatusCode::malformed, "{}: {} bytes, the most is {}", path, size, most);
  return std::optional<MappedFile>(*std::move(file));
}

Status read_text(const std::string& path, std::size_t most, std::optional<std::string>& to) {
  const Result<std::optional<MappedFile>> file = open_optional(path, most);
  if (!file) return file.status();
  if (*file) to = std::string(text_of(**file));
  return {};
}

Status read_json(const std::string& path, std::size_t most, std::optional<Json>& to) {
  const Result<std::optional<MappedFile>> file = open_optional(path, most);
  if (!file) return file.status();
  if (!*file) return {};
  Result<Json> json = parse_json(text_of(**file));
  if (!json) return error(json.status().code(), "{}: {}", path, json.status().message());
  if (!json->object()) return error(StatusCode::malformed, "{}: is no JSON object", path);
  to = *std::move(json);
  return {};
}

Status read_small_files(OpenedModel& model) {
  struct JsonFile {
    const char* name;
    std::size_t most;
    std::optional<Json>* to;
  };
  const JsonFile files[] = {
      {"config.json", kMostConfigBytes, &model.config},
      {"generation_config.json", kMostConfigBytes, &model.generation_config},
      {"tokenizer.json", kMostTokenizerBytes, &model.tokenizer_json},
      {"tokenizer_config.json", kMostConfigBytes, &model.tokenizer_config},
  };
  for (const JsonFile& file : files) {
    if (Status read = read_json(join(model.name, file.name), file.most, *file.to); !read)
      return read;
  }
  if (!model.config) {
    return error(StatusCode::not_found, "{}: the folder of a model must have this file",
                 join(model.name, "config.json"));
  }
  if (!model.tokenizer_config) {
    Status read = read_json(join(model.name, "special_tokens_map.json"), kMostConfigBytes,
                            model.tokenizer_config);
    if (!read) return read;
  }
  if (Status read = read_text(join(model.name, "tokenizer.model"), kMostTokenizerBytes,
                              model.sentencepiece_model);
      !read) {
    return read;
  }
  return read_text(join(model.name, "chat_template.jinja"), kMostTemplateBytes,
                   model.chat_template);
}

// tokenizer_config.json has the template as a string, or several as a list of {name, template}.
Status add_configured_template(OpenedModel& model) {
  const Json* value =
      model.tokenizer_config ? model.tokenizer_config->find("chat_template") : nullptr;
  if (!value || value->is_null() || model.chat_template) return {};
  if (const std::string* text = value->string()) {
    model.chat_template = *text;
    return {};
  }
  const std::string item = join(model.name, "tokenizer_config.json") + ": chat_template";
  if (!value->array()) return error(StatusCode::malformed, "{}: neither a string nor a list", item);
  for (const Json& entry : *value->array()) {
    const Json* name = entry.find("name");
    const Json* text = entry.find("template");
    if (!name || !name->string() || !text || !text->string())
      return error(StatusCode::malformed, "{}: an item has no name and template", item);
    if (*name->string() == "default") model.chat_template = *text->string();
  }
  return {};
}

Status add_weights(OpenedModel& model, MappedFile file, const std::string& path) {
  Result<SafetensorsFile> parsed = parse_safetensors(file.bytes(), path);
  if (!parsed) return parsed.status();
  if (Status added = model.add_tensors(parsed->tensors, path); !added) return added;
  for (UnreadableTensor& tensor : parsed->unreadable) {
    model.unreadable.emplace(std::move(tensor.name), std::move(tensor.why));
  }
  model.file_bytes += file.bytes().size();
  model.mappings.push_back(std::move(file));
  return {};
}

// Every tensor of the index must be in the shard that the index says.
Status check_index(const OpenedModel& model, const std::vector<ShardEntry>& index,
                   const std::vector<std::string>& shard_of, const std::string& path) {
  for (const ShardEntry& entry : index) {
    if (model.unreadable.contains(entry.tensor)) continue;
    const auto at = model.by_name.find(entry.tensor);
    if (at == model.by_name.end() || shard_of[at->second] != entry.shard) {
      return error(StatusCode::malformed, "{}: tensor {}: it is not in {}, where the index has it",
                   path, printable(entry.tensor), entry.shard);
    }
  }
  return {};
}

Status add_shards(OpenedModel& model, const MappedFile& index_file, const std::string& path) {
  const Result<std::vector<ShardEntry>> index = parse_shard_index(text_of(index_file), path);
  if (!index) return index.status();
  std::set<std::string> shards;
  for (const ShardEntry& entry : *index) shards.insert(entry.shard);
  std::vector<std::string> shard_of;  // by the index of the tensor
  for (const std::string& shard : shards) {
    const std::string shard_path = join(model.name, shard);
    Result<MappedFile> file = MappedFile::open(shard_path);
    if (!file) {
      return error(file.status().code(), "{} (a shard that {} names)", file.status().message(),
                   kIndexFile);
    }
    if (Status added = add_weights(model, *std::move(file), shard_path); !added) return added;
    shard_of.resize(model.tensors.size(), shard);
  }
  return check_index(model, *index, shard_of, path);
}

Status read_weights(OpenedModel& model) {
  const std::string single = join(model.name, kSingleFile);
  Result<std::optional<MappedFile>> file = open_optional(single, SIZE_MAX);
  if (!file) return file.status();
  if (*file) return add_weights(model, **std::move(file), single);

  const std::string path = join(model.name, kIndexFile);
  const Result<std::optional<MappedFile>> index = open_optional(path, kMostIndexBytes);
  if (!index) return index.status();
  if (*index) return add_shards(model, **index, path);
  return error(StatusCode::not_found, "{}: the folder has neither {} nor {}", model.name,
               kSingleFile, kIndexFile);
}

}  // namespace

Result<OpenedModel> open_huggingface(const std::string& folder, ModelParts parts) {
  OpenedModel model;
  model.name = folder;
  if (Status read = read_small_files(model); !read) return read;
  if (Status added = add_configured_template(model); !added) return added;
  if (parts == ModelParts::everything) {
    if (Status read = read_weights(model); !read) return read;
  }
  return model;
}

}  // namespace quire::format
