#pragma once

#include <quire/status.h>

#include "format/gguf.h"
#include "text/vocabulary_tokenizer.h"

namespace quire::text {

// The tokenizer that a GGUF's keys tokenizer.ggml.* describe: byte-level BPE ("gpt2"), BPE over
// characters ("gemma4"), SentencePiece ("llama"), or none.
Result<TokenizerParts> tokenizer_from_gguf(const format::GgufHeader& header);

}  // namespace quire::text
