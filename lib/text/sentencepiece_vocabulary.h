#pragma once

#include <string>

#include <quire/status.h>

#include "base/json.h"
#include "text/vocabulary_tokenizer.h"

namespace quire::text {

// The tokenizer of a tokenizer.model, with the flags and added tokens of tokenizer_config.json (may
// be null): added_tokens_decoder, add_bos_token (default true), add_eos_token, and `legacy`, which
// says whether the prefix space also goes after special tokens (default true).
Result<TokenizerParts> tokenizer_from_sentencepiece(const std::string& model, const Json* config,
                                                    const std::string& file);

}  // namespace quire::text
