#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace quire::cuda {

// How a weight matrix lies in device memory.
//
// `bfloat`: rows of bfloat16, each padded with zeros to whole blocks of 64 columns, so that library
// products can read them too. All others: panels of 16 rows, each a sequence of records of 16 rows
// x 64 columns, in the order in which a warp feeds them to mma.m16n8k16. A record holds four tiles
// of 16 x 16; lane l of a warp holds in tile t the register pairs
//   pair 0: row l / 4,     columns 16 t + 2 (l % 4) + {0, 1}
//   pair 1: row l / 4 + 8, the same columns
//   pair 2, 3: as 0, 1, columns + 8
// The parts of a record, in this order (each only if the kind has it), 32 lanes side by side:
//   f32     8 x 16 bytes a lane: tile t, pairs 0, 1; then pairs 2, 3
//   codes8  2 x 16 bytes a lane: word 2 t + j / 2, bytes j % 2 and j % 2 + 2 hold pair j
//   codes4  16 bytes a lane: word t, nibbles j and j + 4 hold pair j
//   codes2  8 bytes a lane: word t / 2, two bits at 2 f and 16 + 2 f with f = 4 (t % 2) + j
//   codes1  4 bytes a lane: bits i and 16 + i with i = 4 t + j
// and then the bfloat16 scales and offsets of the rows: for r = 0 ... 7 the words of row r and of
// row r + 8; a row's words are the scales of its groups, two to a word, then the offsets.
// A weight is (code - centre) * scale + offset, or table[code] * scale.
enum class WeightKind : std::uint8_t {
  bfloat,
  float32,
  code8,
  code4,
  code4_offset,
  code4_table,
  code5,
  code5_offset,
  code6,
  code3,
  code2_offset,
};

inline constexpr int kPanelRows = 16;
inline constexpr int kBlockColumns = 64;  // of a record
inline constexpr int kUnitRows = 32;      // two panels: what a warp multiplies at a time

struct WeightShape {
  int code_bits = 0;    // of codes8, or of codes4, codes2 and codes1 together
  int groups = 0;       // of a row in a record: 2 of 32 columns, or 4 of 16
  bool offset = false;  // groups have an offset beside the scale
  int centre = 0;       // subtracted from a code
};

constexpr WeightShape shape_of(WeightKind kind) {
  switch (kind) {
    case WeightKind::bfloat:
    case WeightKind::float32:
      return {};
    case WeightKind::code8:
      return {8, 2, false, 0};  // signed
    case WeightKind::code4:
      return {4, 2, false, 8};
    case WeightKind::code4_offset:
      return {4, 2, true, 8};
    case WeightKind::code4_table:
      return {4, 2, false, 0};
    case WeightKind::code5:
      return {5, 2, false, 16};
    case WeightKind::code5_offset:
      return {5, 2, true, 16};
    case WeightKind::code6:
      return {6, 4, false, 32};
    case WeightKind::code3:
      return {3, 4, false, 4};
    case WeightKind::code2_offset:
      return {2, 4, true, 2};
  }
  return {};
}

// Bytes of the codes, and of the whole record of a kind other than bfloat.
constexpr int code_bytes(WeightKind kind) {
  return kind == WeightKind::float32 ? 4096 : shape_of(kind).code_bits * 128;
}
constexpr int record_bytes(WeightKind kind) {
  const WeightShape shape = shape_of(kind);
  return code_bytes(kind) + kPanelRows * shape.groups * 2 * (shape.offset ? 2 : 1);
}

// The kind that keeps a stored type. Not for u8.
constexpr WeightKind kind_of(DType type) {
  switch (type) {
    case DType::f32:
      return WeightKind::float32;
    case DType::q8_0:
      return WeightKind::code8;
    case DType::q4_0:
      return WeightKind::code4;
    case DType::q4_1:
    case DType::q4_k:
      return WeightKind::code4_offset;
    case DType::iq4_nl:
    case DType::iq4_xs:
    case DType::mxfp4:
      return WeightKind::code4_table;
    case DType::q5_0:
      return WeightKind::code5;
    case DType::q5_1:
    case DType::q5_k:
      return WeightKind::code5_offset;
    case DType::q6_k:
      return WeightKind::code6;
    case DType::q3_k:
      return WeightKind::code3;
    case DType::q2_k:
      return WeightKind::code2_offset;
    default:
      return WeightKind::bfloat;
  }
}

}  // namespace quire::cuda
