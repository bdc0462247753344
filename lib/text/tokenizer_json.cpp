#include "text/tokenizer_json.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "text/bpe_encoder.h"
#include "text/token_spelling.h"
#include "text/tokenizer_json_steps.h"

namespace quire::text {
namespace {

constexpr std::size_t longest_added_token = 1024;  // bytes

// Token texts as tokenizer.json spells them, by id.
struct JsonVocabulary {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;  // of the model
  std::vector<AddedToken> added;
  std::size_t size = 0;  // the highest id, plus 1
};

// Ids may have holes, but not so many that a small file makes a large table.
Result<std::int32_t> checked_id(const Json& json, std::size_t count, const std::string& where) {
  const std::int64_t limit = static_cast<std::int64_t>(count) * 4 + 100'000;
  const std::int64_t* id = json.integer();
  if (id == nullptr || *id < 0 || *id >= limit) {
    return error(StatusCode::malformed, "{}: a token's id is not an integer from 0 to {}", where,
                 limit - 1);
  }
  return static_cast<std::int32_t>(*id);
}

Result<AddedToken> read_added_token(const Json& json, std::size_t count, const std::string& file) {
  const std::string where = file + ": added_tokens";
  AddedToken token;
  const Json* id = json.find("id");
  auto number = checked_id(id ? *id : Json(), count, where);
  if (!number) return number.status();
  token.id = *number;
  auto content = json_string(json, "content", "", where);
  if (!content) return content.status();
  token.content = std::move(*content);
  if (token.content.size() > longest_added_token) {
    return error(StatusCode::unsupported, "{}: token {} has {} bytes, at most {}", where, token.id,
                 token.content.size(), longest_added_token);
  }
  const std::pair<std::string_view, bool*> flags[] = {{"special", &token.special},
                                                      {"lstrip", &token.left_strip},
                                                      {"rstrip", &token.right_strip},
                                                      {"single_word", &token.single_word},
                                                      {"normalized", &token.normalized}};
  for (const auto& [name, flag] : flags) {
    auto value = json_bool(json, name, name == "normalized" && !token.special, where);
    if (!value) return value.status();
    *flag = *value;
  }
  return token;
}

Result<JsonVocabulary> read_vocabulary(const Json& json, const Json& model,
                                       const std::string& file) {
  JsonVocabulary out;
  const Json* vocab = model.find("vocab");
  if (vocab == nullptr || vocab->object() == nullptr) {
    return error(StatusCode::malformed, "{}: model.vocab is not an object", file);
  }
  const Json* added = json.find("added_tokens");
  const JsonArray none;
  const JsonArray& added_list = added && added->array() ? *added->array() : none;
  const std::size_t count = vocab->object()->size() + added_list.size();
  out.entries.reserve(vocab->object()->size());
  for (const auto& [text, value] : *vocab->object()) {
    auto id = checked_id(value, count, file + ": model.vocab");
    if (!id) return id.status();
    out.entries.emplace_back(text, *id);
    out.size = std::max(out.size, static_cast<std::size_t>(*id) + 1);
  }
  for (const Json& entry : added_list) {
    auto token = read_added_token(entry, count, file);
    if (!token) return token.status();
    out.size = std::max(out.size, static_cast<std::size_t>(token->id) + 1);
    out.added.push_back(std::move(*token));
  }
  if (out.size == 0) return error(StatusCode::malformed, "{}: no tokens", file);
  return out;
}

Result<std::vector<std::pair<std::string, std::string>>> read_merges(const Json& model,
                                                                     bool byte_level,
                                                                     const std::string& file) {
  std::vector<std::pair<std::string, std::string>> out;
  const Json* merges = model.find("merges");
  if (merges == nullptr || merges->array() == nullptr) {
    return error(StatusCode::malformed, "{}: model.merges is not an array", file);
  }
  out.reserve(merges->array()->size());
  for (const Json& merge : *merges->array()) {
    std::string_view left, right;
    if (const std::string* text = merge.string()) {
      const std::string_view both = *text;
      const std::size_t space = both.find(' ', 1);
      if (space != std::string_view::npos) {
        left = both.substr(0, space);
        right = both.substr(space + 1);
      }
    } else if (const JsonArray* parts = merge.array(); parts && parts->size() == 2) {
      if ((*parts)[0].string()) left = *(*parts)[0].string();
      if ((*parts)[1].string()) right = *(*parts)[1].string();
    }
    if (left.empty() || right.empty()) {
      return error(StatusCode::malformed, "{}: model.merges[{}] is not two parts", file,
                   &merge - merges->array()->data());
    }
    if (!byte_level) {
      out.emplace_back(left, right);
      continue;
    }
    auto left_bytes = bytes_from_byte_level(left);
    auto right_bytes = bytes_from_byte_level(right);
    if (!left_bytes || !right_bytes) continue;  // never occurs in a text
    out.emplace_back(std::move(*left_bytes), std::move(*right_bytes));
  }
  return out;
}

Status check_model(const Json& model, const std::string& file) {
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    auto affix = json_string(model, key, "", file + ": model");
    if (!affix) return affix.status();
    if (!affix->empty()) {
      return error(StatusCode::unsupported, "{}: model.{} is \"{}\"", file, key, *affix);
    }
  }
  return {};
}

Result<BpeVocabulary> read_bpe(const Json& model, const JsonVocabulary& vocabulary, bool byte_level,
                               const std::string& file) {
  if (Status status = check_model(model, file); !status) return status;
  const std::string where = file + ": model";
  BpeVocabulary bpe;
  auto byte_fallback = json_bool(model, "byte_fallback", false, where);
  if (!byte_fallback) return byte_fallback.status();
  auto fuse = json_bool(model, "fuse_unk", false, where);
  if (!fuse) return fuse.status();
  auto ignore_merges = json_bool(model, "ignore_merges", false, where);
  if (!ignore_merges) return ignore_merges.status();
  auto unknown = json_string(model, "unk_token", "", where);
  if (!unknown) return unknown.status();
  bpe.alphabet = byte_level ? BpeVocabulary::Alphabet::bytes : BpeVocabulary::Alphabet::characters;
  bpe.fuse_unknown = *fuse;
  bpe.ignore_merges = *ignore_merges;
  std::unordered_set<std::int32_t> special;
  for (const AddedToken& token : vocabulary.added) {
    if (token.special) special.insert(token.id);
  }
  bpe.entries.reserve(vocabulary.entries.size());
  for (const auto& [text, id] : vocabulary.entries) {
    if (!unknown->empty() && text == *unknown) bpe.unknown = id;
    // Plain text never makes a byte piece or a special token, whatever the merges say.
    const auto byte = parse_byte_piece(text);
    if (*byte_fallback && byte) bpe.byte_tokens[*byte] = id;
    if ((*byte_fallback && byte) || special.contains(id)) continue;
    if (!byte_level) {
      bpe.entries.push_back({std::string(text), id});
    } else if (auto bytes = bytes_from_byte_level(text)) {
      bpe.entries.push_back({std::move(*bytes), id});
    }
  }
  auto merges = read_merges(model, byte_level, file);
  if (!merges) return merges.status();
  bpe.merges = std::move(*merges);
  return bpe;
}

// What the "decoder" does to the text of a token.
struct Decoding {
  bool byte_level = false;
  bool byte_pieces = false;
  bool metaspace = false;
  bool strips_leading_space = false;
};

void read_decoder_step(const Json& step, Decoding& out) {
  const Json* type = step.find("type");
  if (type == nullptr || type->string() == nullptr) return;
  const std::string& name = *type->string();
  if (name == "ByteLevel") out.byte_level = true;
  if (name == "ByteFallback") out.byte_pieces = true;
  if (name == "Replace") {
    const Json* content = step.find("content");
    const Json* pattern = step.find("pattern");
    const Json* text = pattern ? pattern->find("String") : nullptr;
    out.metaspace |= text && text->string() && *text->string() == metaspace && content &&
                     content->string() && *content->string() == " ";
  }
  if (name == "Strip") {
    const Json* start = step.find("start");
    out.strips_leading_space |= start && start->integer() && *start->integer() > 0;
  }
  if (name == "Metaspace") {
    const Json* scheme = step.find("prepend_scheme");
    const Json* prefix = step.find("add_prefix_space");
    out.metaspace = true;
    if (scheme && scheme->string()) {
      out.strips_leading_space = *scheme->string() != "never";
    } else {
      out.strips_leading_space = !prefix || !prefix->boolean() || *prefix->boolean();
    }
  }
}

Decoding read_decoder(const Json* decoder) {
  Decoding out;
  if (decoder == nullptr) return out;
  read_decoder_step(*decoder, out);
  const Json* steps = decoder->find("decoders");
  if (steps == nullptr || steps->array() == nullptr) return out;
  for (const Json& step : *steps->array()) read_decoder_step(step, out);
  return out;
}

std::pair<std::string, TokenKind> decode_token(std::string_view text, const Decoding& decoding) {
  if (decoding.byte_level) {
    auto bytes = bytes_from_byte_level(text);
    return {bytes ? std::move(*bytes) : std::string(text), TokenKind::normal};
  }
  if (decoding.byte_pieces) {
    const auto byte = parse_byte_piece(text);
    if (byte) return {std::string(1, static_cast<char>(*byte)), TokenKind::byte};
  }
  return {decoding.metaspace ? spaces_from_metaspace(text) : std::string(text), TokenKind::normal};
}

// Which ids a TemplateProcessing puts around one text.
void read_template(const Json& processor, Vocabulary& vocabulary) {
  const Json* single = processor.find("single");
  const Json* tokens = processor.find("special_tokens");
  if (!single || !single->array() || !tokens) return;
  std::vector<std::int32_t>* side = &vocabulary.prefix;
  for (const Json& part : *single->array()) {
    if (part.find("Sequence")) side = &vocabulary.suffix;
    const Json* special = part.find("SpecialToken");
    const Json* name = special ? special->find("id") : nullptr;
    const Json* token = name && name->string() ? tokens->find(*name->string()) : nullptr;
    const Json* ids = token ? token->find("ids") : nullptr;
    if (!ids || !ids->array()) continue;
    for (const Json& id : *ids->array()) {
      if (id.integer() && vocabulary.contains(*id.integer())) {
        side->push_back(static_cast<std::int32_t>(*id.integer()));
      }
    }
  }
}

void read_post_processor(const Json* processor, Vocabulary& vocabulary) {
  if (processor == nullptr) return;
  const Json* type = processor->find("type");
  if (type == nullptr || type->string() == nullptr) return;
  if (*type->string() == "TemplateProcessing") read_template(*processor, vocabulary);
  const Json* list = processor->find("processors");
  if (list == nullptr || list->array() == nullptr) return;
  for (const Json& step : *list->array()) {
    const Json* name = step.find("type");
    if (name && name->string() && *name->string() == "TemplateProcessing") {
      read_template(step, vocabulary);
    }
  }
}

Vocabulary make_vocabulary(const Json& json, const JsonVocabulary& stored, bool byte_level) {
  Vocabulary vocabulary;
  vocabulary.tokens.resize(stored.size);
  Decoding decoding = read_decoder(json.find("decoder"));
  decoding.byte_level |= byte_level;
  vocabulary.strips_leading_space = decoding.strips_leading_space;
  for (const auto& [text, id] : stored.entries) {
    const auto [bytes, kind] = decode_token(text, decoding);
    vocabulary.tokens.set(id, bytes, kind);
  }
  // Added tokens are written as they are, also in a byte-level vocabulary.
  for (const AddedToken& token : stored.added) {
    vocabulary.tokens.set(token.id, token.content,
                          token.special ? TokenKind::control : TokenKind::user_defined);
  }
  read_post_processor(json.find("post_processor"), vocabulary);
  return vocabulary;
}

}  // namespace

bool is_bpe(const Json& tokenizer_json) {
  const Json* model = tokenizer_json.find("model");
  if (model == nullptr) return false;
  const Json* type = model->find("type");
  if (type == nullptr || type->is_null()) return model->find("merges") != nullptr;  // older files
  return type->string() && *type->string() == "BPE";
}

Result<TokenizerParts> tokenizer_from_json(const Json& json, const std::string& file) {
  if (!is_bpe(json)) {
    return error(StatusCode::unsupported, "{}: the model is not of type BPE", file);
  }
  const Json& model = *json.find("model");
  auto stored = read_vocabulary(json, model, file);
  if (!stored) return stored.status();
  auto normalizer = read_normalizer(json.find("normalizer"), file);
  if (!normalizer) return normalizer.status();
  auto pre_tokenizer = read_pre_tokenizer(json.find("pre_tokenizer"), file);
  if (!pre_tokenizer) return pre_tokenizer.status();
  auto bpe = read_bpe(model, *stored, pre_tokenizer->byte_level, file);
  if (!bpe) return bpe.status();
  const bool normalizes = !normalizer->empty();

  TokenizerParts parts;
  parts.vocabulary = make_vocabulary(json, *stored, pre_tokenizer->byte_level);
  if (bpe->unknown && parts.vocabulary.tokens[*bpe->unknown].kind == TokenKind::normal) {
    parts.vocabulary.tokens.set_kind(*bpe->unknown, TokenKind::unknown);
  }
  // Special tokens are taken from the text as it is, so that nothing normalises into one.
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : stored->added) {
    const bool later = normalizes && token.normalized && !token.special;
    (later ? normalized : raw).push_back(std::move(token));
  }
  BpePipeline pipeline{Normalizer(std::move(*normalizer)),
                       {},
                       PreTokenizer(std::move(pre_tokenizer->steps)),
                       BpeModel(std::move(*bpe))};
  for (AddedToken& token : normalized) {
    if (Status status = pipeline.normalizer.apply(token.content); !status) return status;
  }
  pipeline.normalized_tokens = AddedTokenMatcher(std::move(normalized));
  parts.added_tokens = AddedTokenMatcher(std::move(raw));
  parts.encoder = make_bpe_encoder(std::move(pipeline));
  return parts;
}

}  // namespace quire::text
