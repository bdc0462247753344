#include "format/model_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "format/gguf_source.h"
#include "format/huggingface.h"
#include "format/opened_model.h"
#include "format/printable.h"

namespace quire::format {

Status OpenedModel::add_tensors(const std::vector<TensorView>& more, const std::string& file) {
  for (const TensorView& view : more) {
    if (!by_name.emplace(view.name, tensors.size()).second) {
      return error(StatusCode::malformed, "{}: tensor {}: another file of the model has it too",
                   file, printable(view.name));
    }
    tensors.push_back(view);
  }
  return {};
}

struct ModelFiles::Impl {
  OpenedModel model;
};

namespace {

template <class T>
const T* pointer(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

Result<OpenedModel> open_source(const ModelSource& source, ModelParts parts) {
  if (const MemoryModel* memory = source.memory()) return open_gguf_memory(*memory);
  if (const CallbackModel* callback = source.callback()) return open_gguf_callback(*callback);
  std::error_code unused;
  if (std::filesystem::is_directory(*source.path(), unused))
    return open_huggingface(*source.path(), parts);
  return open_gguf_file(*source.path(), parts);
}

}  // namespace

Result<ModelFiles> ModelFiles::open(const ModelSource& source, ModelParts parts) {
  return guarded("opening the model", [&]() -> Result<ModelFiles> {
    Result<OpenedModel> model = open_source(source, parts);
    if (!model) return model.status();
    return ModelFiles(std::make_unique<Impl>(Impl{*std::move(model)}));
  });
}

ModelFiles::ModelFiles(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelFiles::ModelFiles(ModelFiles&&) noexcept = default;
ModelFiles& ModelFiles::operator=(ModelFiles&&) noexcept = default;
ModelFiles::~ModelFiles() = default;

const std::string& ModelFiles::name() const {
  return impl_->model.name;
}
const GgufHeader* ModelFiles::gguf() const {
  return pointer(impl_->model.gguf);
}
const Json* ModelFiles::config() const {
  return pointer(impl_->model.config);
}
const Json* ModelFiles::generation_config() const {
  return pointer(impl_->model.generation_config);
}
const Json* ModelFiles::tokenizer_json() const {
  return pointer(impl_->model.tokenizer_json);
}
const Json* ModelFiles::tokenizer_config() const {
  return pointer(impl_->model.tokenizer_config);
}
const std::string* ModelFiles::sentencepiece_model() const {
  return pointer(impl_->model.sentencepiece_model);
}
const std::string* ModelFiles::chat_template() const {
  return pointer(impl_->model.chat_template);
}

const TensorView* ModelFiles::find(std::string_view tensor) const {
  const auto at = impl_->model.by_name.find(std::string(tensor));
  return at == impl_->model.by_name.end() ? nullptr : &impl_->model.tensors[at->second];
}

const std::string* ModelFiles::unreadable(std::string_view tensor) const {
  const auto at = impl_->model.unreadable.find(std::string(tensor));
  return at == impl_->model.unreadable.end() ? nullptr : &at->second;
}

const std::vector<TensorView>& ModelFiles::tensors() const {
  return impl_->model.tensors;
}
std::size_t ModelFiles::file_bytes() const {
  return impl_->model.file_bytes;
}
bool ModelFiles::mapped() const {
  return !impl_->model.mappings.empty();
}

}  // namespace quire::format
