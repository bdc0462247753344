#pragma once

#include <memory>
#include <optional>
#include <string>

#include <quire/tokenizer.h>

#include "engine/answer.h"
#include "format/model_files.h"
#include "text/chat_template.h"
#include "text/text_tokenizer.h"

namespace quire {

struct [[gnu::visibility("hidden")]] Tokenizer::Impl {
  static Result<std::unique_ptr<Impl>> create(const format::ModelFiles& files);

  std::string name;
  std::unique_ptr<text::TextTokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  Status template_status;  // why there is none, if the model has one that cannot be parsed
};

}  // namespace quire
