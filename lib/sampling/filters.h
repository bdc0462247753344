#pragma once

#include "sampling/draw.h"
#include "sampling/logit_blocks.h"

namespace quire::sampling {

// The tokens that min_p, top_k and top_p, in this order, leave; each cut is made on what the last
// one left. At least one token stays. The logits must have a finite one. Never sorts the
// vocabulary.
Cut find_cut(const LogitBlocks& blocks, const DrawParams& params, const Weight& weight,
             DrawScratch& scratch);

}  // namespace quire::sampling
