#pragma once

#include "attention/attention_args.h"
#include "attention/paged_attention.h"

namespace quire::cuda {

// Small tiles on GPUs of compute capability 9.0: a warp of its own brings keys and values by bulk
// tensor copies, so that they stream on while one tile ends and the next begins. The result's bits
// are those of the portable kernel.

// Thread blocks of a multiprocessor that work at once; 0: the call is left to the portable kernel.
int hopper_decode_blocks_per_sm(const Launch& launch, const PagedAttentionCall& call);

// Computes the small items of args.plan.
Status hopper_decode(const Launch& launch, const PagedAttentionCall& call,
                     const AttentionArgs& args);

}  // namespace quire::cuda
