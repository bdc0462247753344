#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/draw.h"
#include "sampling/logit_blocks.h"

namespace quire::sampling {

// Fills logprob and top of `result` for the token: natural logarithms of the softmax of the raw
// logits; -infinity where a logit is not finite. `top` gets min(k, vocabulary) entries.
void fill_logprobs(const LogitBlocks& raw, std::int32_t token, int k, DrawScratch& scratch,
                   DrawResult& result);

}  // namespace quire::sampling
