#pragma once

#include <cstddef>

#include "cpu/packed_format.h"

namespace quire::cpu {

// Reading of packed records in plain code: the reference for the kernels.

// One group of a panel.
struct ExpandedGroup {
  std::int16_t codes[16][kGroup];  // [row][column]: code - offset, tables applied
  float scale[2][16];              // [part][row]
  float minimum[2][16];            // [part][row], to be added; -0 where the type has none
  int parts = 1;                   // 1: part 0 is the whole group; 2: parts of 16 columns
  bool minimums = false;           // whether the type has them
};

// Group `group` (of the record) of the record at `record`.
void expand_group(DType type, const std::byte* record, int group, ExpandedGroup& to);

// Weight of row `row` and column `column` of it, exactly as dequantise() has it.
inline float expanded_weight(const ExpandedGroup& group, int row, int column) {
  const int part = group.parts == 2 ? column / 16 : 0;
  const float product = group.scale[part][row] * static_cast<float>(group.codes[row][column]);
  return product + group.minimum[part][row];
}

// The 32 weights of one row of a group.
void expand_row(DType type, const std::byte* record, int group, int row, float* to);

// Sizes of the packed form of a quantised type.
struct RecordShape {
  int columns = 0;  // of a record
  int groups = 0;
  int bytes = 0;  // of a record, all 16 rows
};
RecordShape record_shape(DType type);

}  // namespace quire::cpu
