#pragma once

#include <span>

#include "attention/kv_view.h"
#include "device/kv_cache.h"

namespace quire::cuda {

// The neighbours among the sequences of a KV group that save most if attention reads the keys that
// they share once: the largest (sequences - 1) * keys, of whole pages before their rows. sequences
// is 0 if no two share a block of keys. All sequences have one row.
SharedPrefix find_shared_prefix(std::span<const SequenceRows> sequences, int page_size);

}  // namespace quire::cuda
