#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <quire/model_source.h>
#include <quire/status.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "format/gguf.h"
#include "tensor/tensor_view.h"

namespace quire::format {

// What to read of a model.
enum class ModelParts { everything, vocabulary_only };  // the latter needs no weights

// The opened, checked files of a model: a GGUF (one file or a split), or a Hugging Face folder.
// Owns the mappings; the views that it hands out live as long as it does. Movable.
class ModelFiles {
 public:
  static Result<ModelFiles> open(const ModelSource& source,
                                 ModelParts parts = ModelParts::everything);
  ModelFiles(ModelFiles&&) noexcept;
  ModelFiles& operator=(ModelFiles&&) noexcept;
  ~ModelFiles();

  // For messages: the path as given, or "memory", "callback".
  const std::string& name() const;

  // Exactly one of the two is there: the header of the (first) GGUF, or config.json.
  const GgufHeader* gguf() const;
  const Json* config() const;

  // Hugging Face only; null when the folder does not have it.
  const Json* generation_config() const;
  const Json* tokenizer_json() const;
  const Json* tokenizer_config() const;            // also from special_tokens_map.json if alone
  const std::string* sentencepiece_model() const;  // bytes of tokenizer.model
  // Chat template: GGUF key tokenizer.chat_template, chat_template.jinja, or tokenizer_config.json
  // (a string, or the one named "default" of a list). Null if the model has none.
  const std::string* chat_template() const;

  // A stored tensor by its name in the file; null if absent. All parts of a split or of a sharded
  // checkpoint are searched.
  const TensorView* find(std::string_view tensor) const;
  // Why a tensor that is stored cannot be read, and so is not found; null otherwise.
  const std::string* unreadable(std::string_view tensor) const;
  // Whether it is stored, readable or not.
  bool has(std::string_view tensor) const { return find(tensor) || unreadable(tensor); }
  const std::vector<TensorView>& tensors() const;
  std::size_t file_bytes() const;  // of all weight files
  bool mapped() const;             // tensor bytes are mapped from files (can be released)

 private:
  struct Impl;
  explicit ModelFiles(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::format
