#pragma once

#include <string>

#include <quire/status.h>

#include "format/model_files.h"
#include "format/opened_model.h"

namespace quire::format {

// Opens a folder as Hugging Face's libraries write it: config.json, model.safetensors or shards
// with model.safetensors.index.json (not with vocabulary_only), and the tokenizer's files as they
// are there.
Result<OpenedModel> open_huggingface(const std::string& folder, ModelParts parts);

}  // namespace quire::format
