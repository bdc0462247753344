#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <quire/status.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "format/gguf.h"
#include "tensor/tensor_view.h"

namespace quire::format {

// What the readers of the several kinds of model fill in; the body of ModelFiles.
struct OpenedModel {
  std::string name;
  std::vector<MappedFile> mappings;    // what the views below point into,
  std::unique_ptr<std::byte[]> owned;  // or this, or the caller's memory

  std::optional<GgufHeader> gguf;
  std::optional<Json> config;
  std::optional<Json> generation_config;
  std::optional<Json> tokenizer_json;
  std::optional<Json> tokenizer_config;
  std::optional<std::string> sentencepiece_model;
  std::optional<std::string> chat_template;

  std::vector<TensorView> tensors;
  std::unordered_map<std::string, std::size_t> by_name;     // index into tensors
  std::unordered_map<std::string, std::string> unreadable;  // why, by name
  std::size_t file_bytes = 0;

  // Adds the tensors of one weight file; fails if a name is there already. `file` is for messages.
  Status add_tensors(const std::vector<TensorView>& more, const std::string& file);
};

}  // namespace quire::format
