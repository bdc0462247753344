#pragma once

#include <cuda_fp16.h>

#include "attention/write_kv.h"

namespace quire::cuda {

// Where a token's keys or values lie; null if its page was given back.
__device__ inline std::byte* page_of(const WriteKvCall& call, int row, int& token) {
  const int position = call.sequences.row_position[row];
  const int sequence = call.sequences.row_sequence[row];
  const int page =
      call.sequences.pages[call.sequences.first_page[sequence] + position / call.kv.page_size];
  token = position % call.kv.page_size;
  return page < 0 ? nullptr
                  : call.kv.base + static_cast<std::size_t>(page) * call.kv.page_bytes +
                        call.kv.layer_offset;
}

// float16 keeps what passes its range at the largest number: an infinite key would make NaN.
__device__ inline __half clamped_half(float x) {
  return __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
}

}  // namespace quire::cuda
