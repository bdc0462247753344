#pragma once

#include <cstddef>

#include "device/kv_cache.h"

namespace quire::cpu {

// How this device lays out one head in a layer's slab of a page: keys [head_size][page_size], so
// that a vector holds consecutive tokens, then values [page_size][head_size], then for int8 a float
// scale for each token's key and for each token's value. With `paired` (bf16 only) two neighbours
// of what a product sums over lie in one lane: keys [head_size / 2][page_size][2], values
// [page_size / 2][head_size][2]. Offsets are in bytes, multiples of 64.
struct KvLayout {
  KvType type = KvType::f16;
  int page_size = 0;
  int head_size = 0;
  std::size_t values = 0;
  std::size_t key_scales = 0;
  std::size_t value_scales = 0;
  std::size_t head_bytes = 0;
  bool paired = false;
};

KvLayout kv_layout(KvType type, int page_size, int head_size);
KvLayout paired_kv_layout(int page_size, int head_size);

}  // namespace quire::cpu
