#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <quire/engine_options.h>

namespace quire {

using PageId = std::int32_t;
constexpr PageId kNoPage = -1;  // a page behind the window, given back

// Shape of the keys and values of one KV group: the layers that keep the same tokens.
struct KvGroupSpec {
  int layers = 0;  // layers that write here; each has its own slab in a page
  int kv_heads = 0;
  int head_size = 0;  // elements of one head of K, and of V
  int window = 0;     // tokens a query sees, itself included; 0: all
};

// One layer's keys and values in the pages of its group. The bytes inside a layer's slab of a page
// are laid out by the device; `kv_layer_bytes` says how many they are.
struct KvLayer {
  std::byte* base = nullptr;     // first page of the group, device memory
  std::size_t page_bytes = 0;    // from one page to the next: layers x layer_bytes
  std::size_t layer_offset = 0;  // of this layer's slab inside a page
  KvType type = KvType::f16;
  int page_size = 0;  // tokens in a page
  int kv_heads = 0;
  int head_size = 0;

  std::byte* slab(PageId page) const {
    return base + static_cast<std::size_t>(page) * page_bytes + layer_offset;
  }
};

// Copy of the first `tokens` tokens of a page into another, all layers of one group.
struct PageCopy {
  int group = 0;
  PageId from = kNoPage;
  PageId to = kNoPage;
  int tokens = 0;
};

// Rows of a pass that belong to one sequence, and where its keys and values lie.
struct SequenceRows {
  int first_row = 0;  // in the pass
  int rows = 0;
  int first_position = 0;  // of first_row in its sequence; row i stands at first_position + i
  const PageId* pages =
      nullptr;  // page table of the group: page of position p is pages[p / page_size]
  int page_count = 0;
};

}  // namespace quire
