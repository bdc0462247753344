#pragma once

#include <quire/status.h>

#include "format/model_files.h"
#include "text/vocabulary_tokenizer.h"

namespace quire::text {

// The tokenizer of a Hugging Face folder: tokenizer.json if its model is BPE, else tokenizer.model
// by the sentencepiece library (the two may differ in runs of spaces, see google/gemma's), else
// none. bos, eos and the end tokens come from tokenizer_config.json, config.json and
// generation_config.json; the end tokens are the union.
Result<TokenizerParts> tokenizer_from_huggingface(const format::ModelFiles& files);

}  // namespace quire::text
