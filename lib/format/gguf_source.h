#pragma once

#include <string>

#include <quire/model_source.h>
#include <quire/status.h>

#include "format/model_files.h"
#include "format/opened_model.h"

namespace quire::format {

// Opens a GGUF file, or a split GGUF by its first part ("-00001-of-0000N.gguf"): the other parts
// lie beside it. With vocabulary_only the other parts are not opened.
Result<OpenedModel> open_gguf_file(const std::string& path, ModelParts parts);
// A GGUF in the caller's memory, which the result points into.
Result<OpenedModel> open_gguf_memory(const MemoryModel& memory);
// A GGUF behind a function, read whole into memory that the result owns.
Result<OpenedModel> open_gguf_callback(const CallbackModel& callback);

}  // namespace quire::format
