#pragma once

#include <string>

#include <quire/status.h>

#include "base/json.h"
#include "text/vocabulary_tokenizer.h"

namespace quire::text {

// True if the model of a tokenizer.json is byte-pair encoding, the only one that is read from it.
bool is_bpe(const Json& tokenizer_json);

// The tokenizer that a tokenizer.json describes: normalizer, pre_tokenizer, BPE model, added
// tokens, decoder and post_processor. A step that is not known is `unsupported` and named. bos, eos
// and end tokens are left open: other files say them. `file` is the name for messages.
Result<TokenizerParts> tokenizer_from_json(const Json& tokenizer_json, const std::string& file);

}  // namespace quire::text
