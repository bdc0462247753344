#pragma once

#include "attention/attention_args.h"
#include "attention/hopper/tile_list.h"
#include "attention/paged_attention.h"

namespace quire::cuda {

// The keys that sequences share (PrefixTiles), by the forward kernel for GPUs of compute capability
// 9.0: its tile is the rows of all heads of a key-value head and of several sequences, and its
// results are partial ones.

// Keys of a block of the kernel for a call; 0: the portable kernel has to do it.
int hopper_prefix_block(const Launch& launch, const PagedAttentionCall& call);

// The list of tiles at `memory`, of hopper_workspace_bytes, that the plan fills and hopper_prefix
// reads.
hopper::TileList hopper_prefix_tiles(const PagedAttentionCall& call, std::byte* memory);

// Computes the tiles of a list. Of `args`: where partial results go.
Status hopper_prefix(const Launch& launch, const PagedAttentionCall& call,
                     const AttentionArgs& args, const hopper::TileList& tiles);

}  // namespace quire::cuda
