#include <quire/tokenizer.h>

#include <ctime>
#include <utility>

#include "base/error.h"
#include "engine/tokenizer_impl.h"
#include "text/detokenizer.h"

namespace quire {
namespace {

// Adds the members of the caller's object and what every template may use.
Result<Json> template_variables(const Tokenizer::Impl& impl,
                                const std::vector<ChatMessage>& messages,
                                const TemplateOptions& options) {
  Json variables;
  JsonArray list;
  for (const ChatMessage& message : messages) {
    list.push_back(JsonObject{{"role", message.role}, {"content", message.content}});
  }
  variables.set("messages", std::move(list));
  variables.set("add_generation_prompt", options.add_generation_prompt);
  // Defined and none, as transformers gives them to every template.
  variables.set("tools", nullptr);
  variables.set("documents", nullptr);
  auto special = [&](const char* name, std::optional<std::int32_t> id) {
    variables.set(name, id ? std::string(impl.tokenizer->special_text(*id)) : std::string());
  };
  special("bos_token", impl.tokenizer->bos());
  special("eos_token", impl.tokenizer->eos());
  if (!options.variables_json.empty()) {
    auto more = parse_json(options.variables_json);
    if (!more)
      return error(more.status().code(), "template variables: {}", more.status().message());
    if (!more->object()) {
      return Status(StatusCode::invalid_argument, "template variables: wanted a JSON object");
    }
    for (JsonMember& member : *more->object())
      variables.set(member.first, std::move(member.second));
  }
  return variables;
}

Result<std::vector<text::RenderedPiece>> render(const Tokenizer::Impl& impl,
                                                const std::vector<ChatMessage>& messages,
                                                const TemplateOptions& options) {
  if (!impl.chat_template) {
    return impl.template_status.ok()
               ? Status(StatusCode::unsupported, impl.name + ": the model has no chat template")
               : impl.template_status;
  }
  auto variables = template_variables(impl, messages, options);
  if (!variables) return variables.status();
  const std::int64_t now =
      options.now != 0 ? options.now : static_cast<std::int64_t>(std::time(nullptr));
  return impl.chat_template->render(*variables, now);
}

std::string join(const std::vector<text::RenderedPiece>& pieces) {
  std::string text;
  for (const text::RenderedPiece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace

Result<std::unique_ptr<Tokenizer::Impl>> Tokenizer::Impl::create(const format::ModelFiles& files) {
  auto impl = std::make_unique<Impl>();
  impl->name = files.name();
  auto tokenizer = text::TextTokenizer::create(files);
  if (!tokenizer) return tokenizer.status();
  impl->tokenizer = std::move(*tokenizer);
  if (const std::string* source = files.chat_template()) {
    auto chat_template = text::ChatTemplate::parse(*source);
    if (chat_template) {
      impl->chat_template.emplace(std::move(*chat_template));
    } else {
      // The model itself is usable: whoever applies the template gets this.
      impl->template_status = error(chat_template.status().code(), "{}: {}", files.name(),
                                    chat_template.status().message());
    }
  }
  return impl;
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::open(const ModelSource& source) {
  return guarded("Tokenizer::open", [&]() -> Result<Tokenizer> {
    auto files = format::ModelFiles::open(source, format::ModelParts::vocabulary_only);
    if (!files) return files.status();
    auto impl = Impl::create(*files);
    if (!impl) return impl.status();
    return Tokenizer(std::move(*impl));
  });
}

int Tokenizer::vocabulary_size() const {
  return impl_->tokenizer->vocabulary_size();
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text,
                                                    EncodeOptions options) const {
  return guarded("Tokenizer::encode", [&]() -> Result<std::vector<std::int32_t>> {
    auto ids = impl_->tokenizer->encode(text, options.parse_special);
    if (!ids || !options.add_special) return ids;
    return impl_->tokenizer->add_special(std::move(*ids));
  });
}

Result<int> Tokenizer::count(std::string_view text, EncodeOptions options) const {
  auto ids = encode(text, options);
  if (!ids) return ids.status();
  return static_cast<int>(ids->size());
}

Result<std::vector<std::string>> Tokenizer::decode_stream(
    const std::vector<std::int32_t>& ids) const {
  return guarded("Tokenizer::decode_stream", [&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> deltas;
    AnswerText text(*impl_->tokenizer, {});
    for (std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary_size()) {
        return error(StatusCode::invalid_argument, "decode: token {}, wanted 0 to {}", id,
                     vocabulary_size() - 1);
      }
      deltas.push_back(text.add(id, true).text);
    }
    deltas.push_back(text.finish().text);
    return deltas;
  });
}

Result<std::string> Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  auto deltas = decode_stream(ids);
  if (!deltas) return deltas.status();
  std::string text;
  for (const std::string& delta : *deltas) text += delta;
  return text;
}

bool Tokenizer::has_chat_template() const {
  return impl_->chat_template.has_value();
}

Result<std::string> Tokenizer::apply_chat_template(const std::vector<ChatMessage>& messages,
                                                   const TemplateOptions& options) const {
  return guarded("Tokenizer::apply_chat_template", [&]() -> Result<std::string> {
    auto pieces = render(*impl_, messages, options);
    if (!pieces) return pieces.status();
    return join(*pieces);
  });
}

Result<std::vector<std::int32_t>> Tokenizer::encode_chat(const std::vector<ChatMessage>& messages,
                                                         const TemplateOptions& options) const {
  return guarded("Tokenizer::encode_chat", [&]() -> Result<std::vector<std::int32_t>> {
    auto pieces = render(*impl_, messages, options);
    if (!pieces) return pieces.status();
    return impl_->tokenizer->encode_pieces(*pieces);
  });
}

Result<std::string> render_chat_template(std::string_view source, std::string_view variables_json,
                                         std::int64_t now) {
  return guarded("render_chat_template", [&]() -> Result<std::string> {
    auto chat_template = text::ChatTemplate::parse(source);
    if (!chat_template) return chat_template.status();
    auto variables = parse_json(variables_json);
    if (!variables) return variables.status();
    auto pieces = chat_template->render(*variables, now);
    if (!pieces) return pieces.status();
    return join(*pieces);
  });
}

}  // namespace quire
