#include "text/sentencepiece_vocabulary.h"

#include <charconv>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/model_proto.h"
#include "text/sentencepiece_encoder.h"
#include "text/token_spelling.h"
#include "text/tokenizer_json_steps.h"

namespace quire::text {
namespace {

constexpr std::size_t longest_added_token = 1024;  // bytes
constexpr std::int64_t most_added_tokens = 100'000;

Vocabulary make_vocabulary(const PieceModel& model) {
  Vocabulary vocabulary;
  std::size_t bytes = 0;
  for (const auto& piece : model.pieces) bytes += piece.text.size();
  vocabulary.tokens.reserve(model.pieces.size(), bytes);
  for (const auto& piece : model.pieces) {
    std::string text;
    if (piece.kind == TokenKind::byte) {
      text = static_cast<char>(*parse_byte_piece(piece.text));
    } else if (piece.kind == TokenKind::control || piece.kind == TokenKind::unknown) {
      text = piece.text;
    } else {
      text = spaces_from_metaspace(piece.text);
    }
    vocabulary.tokens.add(text, piece.kind);
  }
  vocabulary.bos = model.bos;
  vocabulary.eos = model.eos;
  vocabulary.strips_leading_space = model.adds_prefix_space && !model.space_is_suffix;
  return vocabulary;
}

// The entries of added_tokens_decoder: "32000": {content, special, ...}. Those beyond the model's
// pieces extend the vocabulary.
Status read_added_tokens(const Json& config, const std::string& file, Vocabulary& vocabulary,
                         std::vector<AddedToken>& out) {
  const Json* decoder = config.find("added_tokens_decoder");
  if (decoder == nullptr || decoder->object() == nullptr) return {};
  const std::string where = file + ": added_tokens_decoder";
  const auto limit = static_cast<std::int64_t>(vocabulary.tokens.size()) + most_added_tokens;
  for (const auto& [key, entry] : *decoder->object()) {
    std::int64_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 ||
        id >= limit) {
      return error(StatusCode::malformed, "{}: a key is not an id from 0 to {}", where, limit - 1);
    }
    AddedToken token{static_cast<std::int32_t>(id)};
    auto content = json_string(entry, "content", "", where);
    if (!content) return content.status();
    token.content = std::move(*content);
    if (token.content.size() > longest_added_token) {
      return error(StatusCode::unsupported, "{}: token {} has {} bytes, at most {}", where, id,
                   token.content.size(), longest_added_token);
    }
    const std::pair<std::string_view, bool*> flags[] = {{"special", &token.special},
                                                        {"lstrip", &token.left_strip},
                                                        {"rstrip", &token.right_strip},
                                                        {"single_word", &token.single_word}};
    for (const auto& [name, flag] : flags) {
      auto value = json_bool(entry, name, false, where);
      if (!value) return value.status();
      *flag = *value;
    }
    if (static_cast<std::size_t>(id) >= vocabulary.tokens.size()) {
      vocabulary.tokens.resize(static_cast<std::size_t>(id) + 1);
    }
    vocabulary.tokens.set(id, token.content,
                          token.special ? TokenKind::control : TokenKind::user_defined);
    out.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<TokenizerParts> tokenizer_from_sentencepiece(const std::string& bytes, const Json* config,
                                                    const std::string& file) {
  auto model = read_model_proto(bytes, file);
  if (!model) return model.status();
  const Json empty;
  const Json& flags = config ? *config : empty;
  TokenizerParts parts;
  Vocabulary& vocabulary = parts.vocabulary;
  vocabulary = make_vocabulary(*model);
  std::vector<AddedToken> added;
  if (Status status = read_added_tokens(flags, file, vocabulary, added); !status) return status;
  // Control pieces match as they are; the library finds user-defined ones itself.
  for (std::size_t id = 0; id < model->pieces.size(); ++id) {
    if (!vocabulary.is_special(static_cast<std::int64_t>(id))) continue;
    added.push_back({static_cast<std::int32_t>(id), std::string(vocabulary.tokens[id].text), true});
  }
  parts.added_tokens = AddedTokenMatcher(std::move(added));

  auto legacy = json_bool(flags, "legacy", true, file);
  if (!legacy) return legacy.status();
  SentencePieceOptions options{PrefixSpace::never, static_cast<int>(vocabulary.tokens.size())};
  std::string proto = bytes;
  // The library would add the space to every segment; and where it removes spaces, it must.
  if (model->adds_prefix_space && !model->removes_extra_spaces && !model->space_is_suffix &&
      !*legacy) {
    proto = without_prefix_space(bytes);
    options.prefix = PrefixSpace::start_of_text;
  }
  auto encoder = make_sentencepiece_encoder(proto, options);
  if (!encoder) {
    return error(encoder.status().code(), "{}: {}", file, encoder.status().message());
  }
  parts.encoder = std::move(*encoder);
  return parts;
}

}  // namespace quire::text
