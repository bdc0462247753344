#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <quire/request.h>

#include "device/kv_cache.h"

namespace quire {

// One sequence's tokens in a pass: rows [first_row, first_row + tokens).
struct PlanSlice {
  std::uint64_t sequence = 0;  // Sequence::id
  RequestId request = 0;       // whose sequence it is
  int first_row = 0;
  int tokens = 0;
  int first_position = 0;
  int rope_choice = 0;         // 0: short (or only) factors, 1: long
  bool decode = false;         // one new token of a running answer
  int page_count = 0;          // of its page table up to the last position, in every group
  std::size_t first_page = 0;  // where that begins in Plan::pages
};

// A token to choose from the logits of a row.
struct PlanDraw {
  int logit_row = 0;           // index into Plan::logit_rows
  std::uint64_t sequence = 0;  // whose row it is
  RequestId request = 0;
  int choice = 0;
};

// What one pass computes: a value, made by Batcher::plan, computed by the decoder, given back to
// Batcher::commit or Batcher::fail. Indices are into arrays of this struct.
struct Plan {
  std::uint64_t serial = 0;                // which plan of the batcher; 0: empty
  std::vector<std::int32_t> tokens;        // [rows]
  std::vector<std::int32_t> token_draws;   // [rows], made ahead: the draw of the pass before that
                                           // gives a row's token; else empty
  std::vector<std::int32_t> positions;     // [rows]
  std::vector<std::int32_t> rope_choices;  // [rows]
  std::vector<PlanSlice> slices;
  std::vector<PageId> pages;             // page tables: [slice][group][page_count of the slice]
  std::vector<std::int32_t> logit_rows;  // rows whose logits are drawn from, ascending
  std::vector<PlanDraw> draws;
  std::vector<std::int32_t> prompt_logit_rows;  // rows whose logits give prompt log-probabilities
  std::vector<PageCopy> copies;                 // done before anything else
  int decode_tokens = 0;
  int prefill_tokens = 0;

  bool empty() const { return tokens.empty(); }
  std::span<const PageId> page_table(const PlanSlice& slice, std::size_t group) const {
    const auto count = static_cast<std::size_t>(slice.page_count);
    return std::span(pages).subspan(slice.first_page + group * count, count);
  }
};

}  // namespace quire
