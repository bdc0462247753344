#include "cpu/sequence_check.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace quire::cpu {

Status check_kv(const char* what, const KvLayer& kv, int most_head_size) {
  const int page = kv.page_size;
  const bool known = page == 8 || page == 16 || page == 32 || page == 64 || page == 128;
  if (kv.base == nullptr || !known || kv.kv_heads < 1 || kv.head_size < 1 ||
      kv.head_size > most_head_size) {
    return error(StatusCode::internal,
                 "{}: {} KV heads of {} elements (at most {} reserved) in pages of {} tokens", what,
                 kv.kv_heads, kv.head_size, most_head_size, page);
  }
  if (kv.type == KvType::fp8) {
    return error(StatusCode::internal, "{}: keys and values in fp8, which CpuDevice refuses", what);
  }
  return {};
}

Status check_sequences(const char* what, std::span<const SequenceRows> sequences, int rows,
                       const KvLayer& kv, int reach) {
  int next = 0;
  for (const SequenceRows& sequence : sequences) {
    const std::int64_t end = std::int64_t{sequence.first_position} + sequence.rows;
    if (sequence.first_row != next || sequence.rows < 1 || sequence.rows > rows - next ||
        sequence.first_position < 0) {
      return error(StatusCode::internal, "{}: rows {} to {} at position {} after {} of {} rows",
                   what, sequence.first_row, sequence.first_row + sequence.rows,
                   sequence.first_position, next, rows);
    }
    next += sequence.rows;
    if (end > std::int64_t{sequence.page_count} * kv.page_size) {
      return error(StatusCode::internal, "{}: {} tokens in {} pages of {}", what, end,
                   sequence.page_count, kv.page_size);
    }
    const int first = reach > 0 ? std::max(0, sequence.first_position - reach + 1) : 0;
    for (int page = first / kv.page_size; page <= (end - 1) / kv.page_size; ++page) {
      if (sequence.pages[page] < 0) {
        return error(StatusCode::internal, "{}: page {} of a sequence is gone but still needed",
                     what, page);
      }
    }
  }
  if (next != rows) {
    return error(StatusCode::internal, "{}: the sequences have {} rows of {}", what, next, rows);
  }
  return {};
}

}  // namespace quire::cpu
