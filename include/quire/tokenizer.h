#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <quire/export.h>
#include <quire/model_source.h>
#include <quire/request.h>
#include <quire/status.h>

namespace quire {

struct EncodeOptions {
  bool add_special = true;     // the tokens that the model wants around a text (BOS, ...)
  bool parse_special = false;  // "<|im_end|>" in the text is that token, not seven characters
};

struct TemplateOptions {
  bool add_generation_prompt = true;
  // An object of further variables: "tools", "documents", "enable_thinking", ... Its "messages", if
  // it has any, are taken in place of the argument: they may hold more than a role and a text
  // (null or a list of parts as content, "tool_calls", ...).
  std::string variables_json;
  std::int64_t now = 0;  // seconds since 1970, for strftime_now; 0: the system's clock
};

// Text to token ids and back, and the model's chat template. Immutable: safe from any thread.
class QUIRE_EXPORT Tokenizer {
 public:
  // Reads the vocabulary only; a GGUF without tensors or a folder without weights is enough.
  static Result<Tokenizer> open(const ModelSource& source);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  int vocabulary_size() const;
  // `text` may hold any bytes; each ill-formed part is taken as U+FFFD (WHATWG rules).
  Result<std::vector<std::int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  // Number of ids that `encode` would return.
  Result<int> count(std::string_view text, EncodeOptions options = {}) const;
  // Special tokens give nothing; an ill-formed part becomes U+FFFD.
  Result<std::string> decode(const std::vector<std::int32_t>& ids) const;
  // One delta for each id and one for the end, as streaming would deliver them.
  Result<std::vector<std::string>> decode_stream(const std::vector<std::int32_t>& ids) const;

  bool has_chat_template() const;
  // The rendered conversation as text.
  Result<std::string> apply_chat_template(const std::vector<ChatMessage>& messages,
                                          const TemplateOptions& options = {}) const;
  // The rendered conversation as ids: special tokens of the template's own text are parsed, those
  // in message content are not.
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>& messages,
                                                const TemplateOptions& options = {}) const;

  // What holds the vocabulary; for the library's own use.
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Renders a chat template in Jinja without a model. `variables_json` is an object with everything
// that the template reads: "messages", "add_generation_prompt", "bos_token", ... `now`: as in
// TemplateOptions. Errors name the template's line and column.
QUIRE_EXPORT Result<std::string> render_chat_template(std::string_view template_source,
                                                      std::string_view variables_json,
                                                      std::int64_t now = 0);

}  // namespace quire
