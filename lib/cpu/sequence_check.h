#pragma once

#include <span>

#include <quire/status.h>

#include "device/kv_cache.h"

namespace quire::cpu {

// Checks that the sequences cover rows [0, rows) in order, and that each has a page for every
// position from `reach` tokens before its first row (0: from its start; reach 1: its own rows only)
// on.
Status check_sequences(const char* what, std::span<const SequenceRows> sequences, int rows,
                       const KvLayer& kv, int reach);
Status check_kv(const char* what, const KvLayer& kv, int most_head_size);

}  // namespace quire::cpu
