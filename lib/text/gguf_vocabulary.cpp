#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "text/bpe_encoder.h"
#include "text/model_proto.h"
#include "text/named_pre_tokenizers.h"
#include "text/piece_encoder.h"
#include "text/token_spelling.h"

namespace quire::text {
namespace {

using format::GgufHeader;

constexpr std::int64_t most_tokens = 1 << 24;
constexpr std::size_t longest_added_token = 1024;  // bytes

// The keys as they are stored.
struct StoredVocabulary {
  std::string model;
  std::vector<std::string_view> texts;
  std::vector<TokenKind> kinds;  // one for each text
};

Result<StoredVocabulary> read_tokens(const GgufHeader& header) {
  StoredVocabulary stored;
  auto texts = header.strings("tokenizer.ggml.tokens");
  if (!texts) return texts.status();
  stored.texts = std::move(*texts);
  const auto count = static_cast<std::int64_t>(stored.texts.size());
  if (count == 0 || count > most_tokens) {
    return error(StatusCode::malformed, "{}: tokenizer.ggml.tokens has {} tokens, want 1 to {}",
                 header.file(), count, most_tokens);
  }
  auto kinds = header.integers("tokenizer.ggml.token_type");
  if (!kinds) return kinds.status();
  if (!kinds->empty() && kinds->size() != stored.texts.size()) {
    return error(StatusCode::malformed,
                 "{}: tokenizer.ggml.token_type has {} entries for {} tokens", header.file(),
                 kinds->size(), count);
  }
  stored.kinds.resize(stored.texts.size(), TokenKind::normal);
  for (std::size_t id = 0; id < kinds->size(); ++id) {
    const std::int64_t kind = (*kinds)[id];
    if (kind < 0 || kind > 6) {
      return error(StatusCode::malformed, "{}: tokenizer.ggml.token_type[{}] is {}, want 0 to 6",
                   header.file(), id, kind);
    }
    if (kind != 0) stored.kinds[id] = static_cast<TokenKind>(kind);
  }
  return stored;
}

// The id that a key gives, the default if it is absent and names a control token, or nothing.
Result<std::optional<std::int32_t>> special_id(const GgufHeader& header,
                                               const StoredVocabulary& stored, std::string_view key,
                                               std::int64_t standard) {
  const auto last = static_cast<std::int64_t>(stored.texts.size()) - 1;
  auto id = header.integer_or(key, 0, last, -1);
  if (!id) return id.status();
  if (*id >= 0) return std::optional(static_cast<std::int32_t>(*id));
  if (standard < 0 || standard > last || stored.kinds[standard] != TokenKind::control) {
    return std::optional<std::int32_t>();
  }
  return std::optional(static_cast<std::int32_t>(standard));
}

// Fills bos, eos and the ends that have keys; these tokens are control tokens whatever their type.
Status read_special_ids(const GgufHeader& header, StoredVocabulary& stored,
                        Vocabulary& vocabulary) {
  const bool pieces = stored.model == "llama";
  struct Key {
    std::string_view key;
    std::int64_t standard;
    std::optional<std::int32_t>* target;
    bool ends;
  };
  std::optional<std::int32_t> end_of_turn, end_of_message;
  const std::array<Key, 4> keys = {{
      {"tokenizer.ggml.bos_token_id", pieces ? 1 : 11, &vocabulary.bos, false},
      {"tokenizer.ggml.eos_token_id", pieces ? 2 : 11, &vocabulary.eos, true},
      {"tokenizer.ggml.eot_token_id", -1, &end_of_turn, true},
      {"tokenizer.ggml.eom_token_id", -1, &end_of_message, true},
  }};
  for (const Key& key : keys) {
    auto id = special_id(header, stored, key.key, key.standard);
    if (!id) return id.status();
    *key.target = *id;
    if (!*id) continue;
    stored.kinds[**id] = TokenKind::control;
    if (key.ends) vocabulary.end_tokens.push_back(**id);
  }
  return {};
}

Status read_surroundings(const GgufHeader& header, bool adds_bos, Vocabulary& vocabulary) {
  auto bos = header.boolean_or("tokenizer.ggml.add_bos_token", adds_bos);
  if (!bos) return bos.status();
  auto eos = header.boolean_or("tokenizer.ggml.add_eos_token", false);
  if (!eos) return eos.status();
  if (*bos && vocabulary.bos) vocabulary.prefix = {*vocabulary.bos};
  if (*eos && vocabulary.eos) vocabulary.suffix = {*vocabulary.eos};
  return {};
}

// The bytes that a token adds to the text.
std::string token_bytes(const StoredVocabulary& stored, std::size_t id) {
  const std::string_view text = stored.texts[id];
  const bool byte_level = stored.model == "gpt2";
  switch (stored.kinds[id]) {
    case TokenKind::control:
    case TokenKind::unknown:
      return std::string(text);
    case TokenKind::user_defined:
      return byte_level ? std::string(text) : spaces_from_metaspace(text);
    case TokenKind::byte:
      if (const auto byte = parse_byte_piece(text)) return std::string(1, static_cast<char>(*byte));
      return std::string(text);
    case TokenKind::normal:
    case TokenKind::unused:
      break;
  }
  if (!byte_level) return spaces_from_metaspace(text);
  auto bytes = bytes_from_byte_level(text);
  return bytes ? std::move(*bytes) : std::string(text);
}

Status check_byte_pieces(const GgufHeader& header, const StoredVocabulary& stored) {
  for (std::size_t id = 0; id < stored.texts.size(); ++id) {
    if (stored.kinds[id] == TokenKind::byte && !parse_byte_piece(stored.texts[id])) {
      return error(StatusCode::malformed, "{}: token {} is a byte but is not written <0xHH>",
                   header.file(), id);
    }
  }
  return {};
}

// Control and unknown tokens match where specials are parsed, user-defined ones always.
Result<AddedTokenMatcher> added_tokens(const GgufHeader& header, const StoredVocabulary& stored,
                                       const Vocabulary& vocabulary) {
  // Phi-3's tokenizer.json strips white space after its special tokens; GGUF has no key for it.
  auto architecture = header.string_or("general.architecture", "");
  if (!architecture) return architecture.status();
  const bool strips = *architecture == "phi3" && stored.model == "llama";
  std::vector<AddedToken> tokens;
  for (std::size_t id = 0; id < stored.texts.size(); ++id) {
    const TokenKind kind = stored.kinds[id];
    const bool special = kind == TokenKind::control || kind == TokenKind::unknown;
    if (!special && kind != TokenKind::user_defined) continue;
    AddedToken token{static_cast<std::int32_t>(id), std::string(vocabulary.tokens[id].text),
                     special};
    if (token.content.size() > longest_added_token) {
      return error(StatusCode::unsupported, "{}: token {} is special and has {} bytes, at most {}",
                   header.file(), id, token.content.size(), longest_added_token);
    }
    token.right_strip = strips && token.content != "<unk>" && token.content != "<s>" &&
                        token.content != "<|endoftext|>";
    tokens.push_back(std::move(token));
  }
  return AddedTokenMatcher(std::move(tokens));
}

Result<std::vector<std::pair<std::string, std::string>>> read_merges(const GgufHeader& header,
                                                                     bool byte_level) {
  auto merges = header.strings("tokenizer.ggml.merges");
  if (!merges) return merges.status();
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(merges->size());
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    // The left part may itself be a space.
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return error(StatusCode::malformed, "{}: tokenizer.ggml.merges[{}] is not two parts",
                   header.file(), rank);
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    if (!byte_level) {
      out.emplace_back(left, right);
      continue;
    }
    auto left_bytes = bytes_from_byte_level(left);
    auto right_bytes = bytes_from_byte_level(right);
    // A part that no bytes can spell never occurs, but its rank stays taken.
    if (!left_bytes || !right_bytes) continue;
    out.emplace_back(std::move(*left_bytes), std::move(*right_bytes));
  }
  return out;
}

Result<std::unique_ptr<SegmentEncoder>> byte_level_encoder(const GgufHeader& header,
                                                           const StoredVocabulary& stored,
                                                           NamedPreTokenizer named) {
  BpeVocabulary bpe;
  bpe.ignore_merges = named.ignore_merges;
  for (std::size_t id = 0; id < stored.texts.size(); ++id) {
    if (stored.kinds[id] != TokenKind::normal) continue;
    auto bytes = bytes_from_byte_level(stored.texts[id]);
    if (bytes) bpe.entries.push_back({std::move(*bytes), static_cast<std::int32_t>(id)});
  }
  auto merges = read_merges(header, true);
  if (!merges) return merges.status();
  bpe.merges = std::move(*merges);
  return make_bpe_encoder({{}, {}, std::move(named.pre_tokenizer), BpeModel(std::move(bpe))});
}

// Gemma 4: spaces are U+2581, words end at runs of newlines, and a run that is a token needs no
// merges.
Result<std::unique_ptr<SegmentEncoder>> character_encoder(const GgufHeader& header,
                                                          const StoredVocabulary& stored) {
  BpeVocabulary bpe;
  bpe.alphabet = BpeVocabulary::Alphabet::characters;
  for (std::size_t id = 0; id < stored.texts.size(); ++id) {
    const auto token = static_cast<std::int32_t>(id);
    if (stored.kinds[id] == TokenKind::normal) {
      bpe.entries.push_back({std::string(stored.texts[id]), token});
    } else if (stored.kinds[id] == TokenKind::byte) {
      bpe.byte_tokens[*parse_byte_piece(stored.texts[id])] = token;
    }
  }
  auto merges = read_merges(header, false);
  if (!merges) return merges.status();
  bpe.merges = std::move(*merges);
  auto space = SplitPattern::literal(" ");
  if (!space) return space.status();
  auto newlines = SplitPattern::compile(R"(\n+)");
  if (!newlines) return newlines.status();
  std::vector<NormalizerStep> normalizer;
  normalizer.emplace_back(ReplaceStep{std::move(*space), "\u2581"});
  std::vector<PreTokenizerStep> steps;
  steps.emplace_back(SplitStep{std::move(*newlines)});
  return make_bpe_encoder({Normalizer(std::move(normalizer)),
                           {},
                           PreTokenizer(std::move(steps)),
                           BpeModel(std::move(bpe))});
}

Result<std::unique_ptr<SegmentEncoder>> piece_encoder(const GgufHeader& header,
                                                      const StoredVocabulary& stored,
                                                      bool adds_prefix_space) {
  auto scores = header.reals("tokenizer.ggml.scores");
  if (!scores) return scores.status();
  if (scores->size() != stored.texts.size()) {
    return error(StatusCode::malformed, "{}: tokenizer.ggml.scores has {} entries for {} tokens",
                 header.file(), scores->size(), stored.texts.size());
  }
  auto unknown = special_id(header, stored, "tokenizer.ggml.unknown_token_id", -1);
  if (!unknown) return unknown.status();
  auto collapses = header.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false);
  if (!collapses) return collapses.status();
  PieceModel model;
  model.adds_prefix_space = adds_prefix_space;
  model.removes_extra_spaces = *collapses;
  model.unknown = *unknown;
  model.pieces.reserve(stored.texts.size());
  for (std::size_t id = 0; id < stored.texts.size(); ++id) {
    model.pieces.push_back({stored.texts[id], (*scores)[id], stored.kinds[id]});
  }
  return make_piece_encoder(model);
}

Result<TokenizerParts> ids_only(const GgufHeader& header) {
  auto architecture = header.string_or("general.architecture", "");
  if (!architecture) return architecture.status();
  auto size = header.integer_or(std::string(*architecture) + ".vocab_size", 1, 1 << 30, 0);
  if (!size) return size.status();
  TokenizerParts parts;
  parts.vocabulary.declared_size = static_cast<std::int32_t>(*size);
  return parts;
}

}  // namespace

Result<TokenizerParts> tokenizer_from_gguf(const GgufHeader& header) {
  auto model = header.string_or("tokenizer.ggml.model", "none");
  if (!model) return model.status();
  if (*model == "none" || *model == "no_vocab") return ids_only(header);
  if (*model != "gpt2" && *model != "llama" && *model != "gemma4") {
    return error(StatusCode::unsupported,
                 "{}: tokenizer.ggml.model is \"{}\", not one of: gemma4, gpt2, llama, none",
                 header.file(), *model);
  }
  auto stored = read_tokens(header);
  if (!stored) return stored.status();
  stored->model = *model;
  if (Status status = check_byte_pieces(header, *stored); !status) return status;
  TokenizerParts parts;
  Vocabulary& vocabulary = parts.vocabulary;
  if (Status status = read_special_ids(header, *stored, vocabulary); !status) return status;
  std::size_t bytes = 0;
  for (const std::string_view text : stored->texts) bytes += text.size();
  vocabulary.tokens.reserve(stored->texts.size(), bytes);
  for (std::size_t id = 0; id < stored->texts.size(); ++id) {
    vocabulary.tokens.add(token_bytes(*stored, id), stored->kinds[id]);
  }
  auto added = added_tokens(header, *stored, vocabulary);
  if (!added) return added.status();
  parts.added_tokens = std::move(*added);
  complete_end_tokens(vocabulary);

  auto prefix_space = header.boolean_or("tokenizer.ggml.add_space_prefix", *model == "llama");
  if (!prefix_space) return prefix_space.status();
  vocabulary.strips_leading_space = *model == "llama" && *prefix_space;
  bool adds_bos = *model != "gpt2";
  Result<std::unique_ptr<SegmentEncoder>> encoder = Status();
  if (*model == "gpt2") {
    auto name = header.string_or("tokenizer.ggml.pre", "default");
    if (!name) return name.status();
    auto named = named_pre_tokenizer(*name);
    if (!named)
      return error(named.status().code(), "{}: {}", header.file(), named.status().message());
    adds_bos = named->adds_bos;
    encoder = byte_level_encoder(header, *stored, std::move(*named));
  } else if (*model == "gemma4") {
    encoder = character_encoder(header, *stored);
  } else {
    encoder = piece_encoder(header, *stored, *prefix_space);
  }
  if (!encoder) return encoder.status();
  parts.encoder = std::move(*encoder);
  if (Status status = read_surroundings(header, adds_bos, vocabulary); !status) return status;
  return parts;
}

}  // namespace quire::text
