#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/draw.h"

namespace quire::sampling {

// Whether draws read the tokens before them.
bool has_penalties(const DrawParams& params);

// Whether the parameters change any logit before the temperature.
bool changes_logits(const DrawParams& params);

// Penalties, then logit bias, then banned and allowed tokens, on a copy of the logits. A logit that
// is not finite stays as it is, and no finite one becomes infinite but by a ban. Ids outside the
// vocabulary are passed over. Takes time in proportion to prompt + output; `scratch.counts` is all
// zero before and after.
void change_logits(const DrawArgs& args, std::span<float> logits, DrawScratch& scratch);

}  // namespace quire::sampling
