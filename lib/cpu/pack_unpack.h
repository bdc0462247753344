#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quire::cpu {

// One row's part of a packed record, before it is interleaved with the other rows of its panel: 8
// groups of a 256-column block, or 2 of 32-column blocks. Which fields count, and how a weight is
// made of them, says the type's ScaleForm. Codes are the stored ones (before any table).
struct RowRecord {
  std::uint8_t codes[256];   // unsigned, in the order of the columns
  std::uint16_t scale[2];    // binary16 or bfloat16; of the whole record: scale[0]
  std::uint16_t minimum[2];  // binary16
  std::uint8_t factor[16];   // of the scale; for super_16_min both factors
  std::uint8_t minimum_factor[8];
};

// Reads `blocks` stored blocks (1, or up to 2 for 32-column types) of a quantised type. What is not
// there is zero, but for fields that do not count.
void unpack_record(DType type, const std::byte* stored, int blocks, RowRecord& record);

}  // namespace quire::cpu
