#include "text/huggingface_vocabulary.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "text/sentencepiece_vocabulary.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_json_steps.h"

namespace quire::text {
namespace {

// A token as tokenizer_config.json names it: its text, or an object with its "content".
std::optional<std::string_view> token_text(const Json* json) {
  if (json && json->object()) json = json->find("content");
  if (json == nullptr || json->string() == nullptr) return std::nullopt;
  return std::string_view(*json->string());
}

std::optional<std::int32_t> find_token(const Vocabulary& vocabulary, std::string_view text) {
  std::optional<std::int32_t> found;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto token = vocabulary.tokens[id];
    if (token.text != text) continue;
    // Of a plain and a control token with the same text the latter is meant.
    if (token.kind == TokenKind::control) return static_cast<std::int32_t>(id);
    if (!found) found = static_cast<std::int32_t>(id);
  }
  return found;
}

// The ids of a member that is an id or a list of ids; others are left out.
std::vector<std::int32_t> ids_of(const Json* object, std::string_view key) {
  std::vector<std::int32_t> ids;
  const Json* value = object ? object->find(key) : nullptr;
  if (value == nullptr) return ids;
  const auto add = [&](const Json& id) {
    if (id.integer() && *id.integer() >= 0 && *id.integer() <= 0x7FFFFFFF) {
      ids.push_back(static_cast<std::int32_t>(*id.integer()));
    }
  };
  add(*value);
  if (value->array()) std::for_each(value->array()->begin(), value->array()->end(), add);
  return ids;
}

std::optional<std::int32_t> special_id(const format::ModelFiles& files,
                                       const Vocabulary& vocabulary, const std::string& name) {
  if (files.tokenizer_config()) {
    const auto text = token_text(files.tokenizer_config()->find(name));
    if (text) return find_token(vocabulary, *text);
  }
  const auto ids = ids_of(files.config(), name + "_id");
  if (ids.empty() || !vocabulary.contains(ids[0])) return std::nullopt;
  return ids[0];
}

void mark_control(Vocabulary& vocabulary, std::optional<std::int32_t> id) {
  if (id && vocabulary.tokens[*id].kind == TokenKind::normal) {
    vocabulary.tokens.set_kind(*id, TokenKind::control);
  }
}

// tokenizer.json says what goes around a text in its post_processor; where it has none, and for
// tokenizer.model, tokenizer_config.json does.
Status read_surroundings(const format::ModelFiles& files, bool adds_bos, Vocabulary& vocabulary) {
  if (!vocabulary.prefix.empty() || !vocabulary.suffix.empty()) return {};
  const Json empty;
  const Json& config = files.tokenizer_config() ? *files.tokenizer_config() : empty;
  const std::string where = files.name() + ": tokenizer_config.json";
  auto bos = json_bool(config, "add_bos_token", adds_bos, where);
  if (!bos) return bos.status();
  auto eos = json_bool(config, "add_eos_token", false, where);
  if (!eos) return eos.status();
  if (*bos && vocabulary.bos) vocabulary.prefix = {*vocabulary.bos};
  if (*eos && vocabulary.eos) vocabulary.suffix = {*vocabulary.eos};
  return {};
}

Result<TokenizerParts> ids_only(const format::ModelFiles& files) {
  TokenizerParts parts;
  const auto size = ids_of(files.config(), "vocab_size");
  if (!size.empty()) parts.vocabulary.declared_size = size[0];
  return parts;
}

}  // namespace

Result<TokenizerParts> tokenizer_from_huggingface(const format::ModelFiles& files) {
  const Json* json = files.tokenizer_json();
  const std::string* model = files.sentencepiece_model();
  const bool use_json = json && (is_bpe(*json) || model == nullptr);
  Result<TokenizerParts> parts = Status();
  if (use_json) {
    parts = tokenizer_from_json(*json, files.name() + ": tokenizer.json");
  } else if (model) {
    parts = tokenizer_from_sentencepiece(*model, files.tokenizer_config(),
                                         files.name() + ": tokenizer.model");
  } else {
    parts = ids_only(files);
  }
  if (!parts) return parts;
  Vocabulary& vocabulary = parts->vocabulary;
  if (const auto bos = special_id(files, vocabulary, "bos_token")) vocabulary.bos = bos;
  if (const auto eos = special_id(files, vocabulary, "eos_token")) vocabulary.eos = eos;
  mark_control(vocabulary, vocabulary.bos);
  mark_control(vocabulary, vocabulary.eos);
  const bool adds_bos = !use_json && model != nullptr;
  if (Status status = read_surroundings(files, adds_bos, vocabulary); !status) return status;
  for (const Json* source : {files.generation_config(), files.config()}) {
    for (const std::int32_t id : ids_of(source, "eos_token_id"))
      vocabulary.end_tokens.push_back(id);
  }
  complete_end_tokens(vocabulary);
  return parts;
}

}  // namespace quire::text
