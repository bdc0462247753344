#pragma once

#include <string_view>

#include <quire/status.h>

#include "text/pre_tokenizer.h"

namespace quire::text {

// What the name in a GGUF's tokenizer.ggml.pre stands for.
struct NamedPreTokenizer {
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;  // a word that is a token needs no merges
  bool adds_bos = false;       // where the file does not say
};

// Unknown names are `unsupported`; the message lists the known ones. "" is "default".
Result<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

// Whether one of the named pre-tokenizers has this pattern: then it takes linear time.
bool is_known_pattern(std::string_view pattern);

// GPT-2's splitting, also that of tokenizer.json's ByteLevel.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace quire::text
