#pragma once

#include <cstddef>
#include <cstdint>

#include <quire/engine_options.h>

namespace quire::cuda {

// One layer's keys and values in the pages of a KV group, device memory. A layer's slab of a page:
//   K [kv_heads][page_size][head_size], then V of the same shape, in 16-bit types and int8;
//   fp8 (e4m3): K as these, V [kv_heads][page_size / 16][head_size][16], a box's tokens in the
//   order of fp8_slot, so that the tensor cores can sum over tokens; K is rotated, see write_kv;
//   for int8 and fp8 then the scales of K and of V, float [kv_heads][page_size] each; those that
//   write_kv writes for fp8 are fp8_scale.
// So 16 consecutive tokens of one head are one box of rows for a bulk tensor copy at every page
// size (a multiple of 16; 8 works too, in boxes of 8).
struct KvView {
  std::byte* base = nullptr;     // first page of the group
  std::size_t page_bytes = 0;    // from one page to the next
  std::size_t layer_offset = 0;  // of the layer's slab inside a page
  KvType type = KvType::bf16;    // f16, bf16, int8, fp8
  int page_size = 0;             // tokens
  int kv_heads = 0;
  int head_size = 0;
};

constexpr bool kv_scaled(KvType type) {
  return type == KvType::int8 || type == KvType::fp8;
}
constexpr int kv_element_bytes(KvType type) {
  return kv_scaled(type) ? 1 : 2;
}

// fp8 values: the byte, of a dimension's 16, of token `token` of a box. What a thread holds of 16
// scores after a product (two neighbours, and the two that come eight later) are then four
// neighbours, as the next product takes its first operand.
constexpr int kFp8Box = 16;
constexpr int fp8_slot(int token) {
  return token % 8 / 2 * 4 + token / 8 * 2 + token % 2;
}

// Scales of fp8 are powers of two, 2^(8 i - 2) of keys and 2^(8 i - 5) of values, the least by
// which the largest element stays within the type: as it has an exponent of its own for each
// element, with seven binades below the largest nothing is lost. So most neighbours have the same
// scale, which kernels can make use of.
constexpr int kFp8ScaleStep = 8, kFp8KeyScale = -2, kFp8ValueScale = -5;

// Neighbours among the sequences of a pass whose page tables name the same pages for their first
// keys: a system prompt, or the answers to one prompt. Only in passes of one row for each sequence.
struct SharedPrefix {
  std::int32_t first = 0;      // sequence
  std::int32_t sequences = 0;  // 0: none
  std::int32_t keys = 0;       // before any of their rows; whole blocks
};

// The sequences of a pass in one KV group, device memory; written once per pass, read by all its
// layers. Entries from `*count` on are padding and must not be read.
struct SequenceTable {
  int capacity = 0;                              // sequences the arrays have room for
  int count = 0;                                 // sequences of this pass (host copy)
  const std::int32_t* first_row = nullptr;       // [capacity] row of the pass
  const std::int32_t* rows = nullptr;            // [capacity] rows of the pass: 1 in decode
  const std::int32_t* first_position = nullptr;  // [capacity]; keys seen by the last row:
                                                 // first_position + rows
  const std::int32_t* first_page = nullptr;      // [capacity] index into `pages` of its page table
  const std::int32_t* pages = nullptr;           // page tables, one after the other; -1: given back
  const std::int32_t* row_sequence = nullptr;    // [rows of the pass] which sequence a row is of
  const std::int32_t* row_position = nullptr;    // [rows of the pass]
  int total_rows = 0;                            // of the pass (host copy)
  int max_rows = 0;                              // most rows of one sequence (host copy)
  int max_keys = 0;                              // bound of the keys of one sequence (host copy)
  const SharedPrefix* prefix = nullptr;          // [1], device memory; null: there is none
  bool long_prefix = false;  // whether reading it once pays with any kernel (host copy)
};

}  // namespace quire::cuda
