#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "attention/kv_view.h"
#include "device/kv_cache.h"

namespace quire::cuda {

class PrefixFinder {
 public:
  // The neighbours among the sequences of a KV group that save most if attention reads the keys
  // that they share once: the largest (sequences - 1) * keys, of whole pages before their rows.
  // sequences is 0 if no two share a block of keys. All sequences have one row.
  SharedPrefix find(std::span<const SequenceRows> sequences, int page_size);

 private:
  struct Run {
    std::size_t first;  // sequence
    int pages;
  };
  std::vector<Run> open_;  // of growing numbers of pages; kept from pass to pass
};

}  // namespace quire::cuda
