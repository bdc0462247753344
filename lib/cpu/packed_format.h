#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace quire::cpu {

// How packed weights lie in memory, the same for every instruction set.
//
// A panel is 16 output rows over all columns; the panels of a matrix follow each other. A panel of
// a quantised type is a sequence of records of 2 or 8 groups, a group being 32 columns: first the
// codes of every group, then the scales of the record. Columns are padded to whole records with
// zero scales.
//
// Codes of a group are unsigned. Byte 4 r + c of a 64-byte vector belongs to row r and to column
// 4 q + c, q being the column quad (0 ... 7):
//   nibbles    4 vectors; the low nibbles of vector v hold quad v, the high ones quad v + 4
//   nibbles_1  and then 1 vector whose bit q is bit 4 of quad q
//   nibbles_2  and then 2 vectors, for quads 0-3 and 4-7, with bits 4 and 5 of quad q at 2 (q % 4)
//   bytes      8 vectors, one for each quad
//   pairs      2 vectors, for quads 0-3 and 4-7, with quad q at bit 2 (q % 4)
//   pairs_1    and then 1 vector whose bit q is bit 2 of quad q
enum class CodeForm { nibbles, nibbles_1, nibbles_2, bytes, pairs, pairs_1 };

// Scales of a record; [16] runs over the rows of the panel.
//   half          [2][16] binary16 scales of the groups
//   bfloat        [2][16] bfloat16 scales
//   half_min      [2][16] binary16 scales, [2][16] binary16 minimums
//   super         [16] binary16 scales of the record, 32 bytes free, [8][16] int8 group factors
//   super_min     [16] binary16 scales, [16] binary16 minimums, [8][16] uint8 factors of the scale,
//                 [8][16] uint8 factors of the minimum
//   super_16      as super, but [16][16] factors, one for each 16 columns
//   super_16_min  [16] scales, [16] minimums, [16][16] bytes: factor of the scale in the low
//   nibble,
//                 of the minimum in the high one
// A weight is scale * (code - offset) + minimum; the minimum of super_min and super_16_min is
// subtracted. Scale and minimum of a group are exact in float32.
enum class ScaleForm { half, bfloat, half_min, super, super_min, super_16, super_16_min };

// Integer that a four-bit code stands for, plus `offset`: see the tables.
enum class CodeTable { none, iq4, mxfp4 };

constexpr int kGroup = 32;        // columns with one activation scale
constexpr int kVectorBytes = 64;  // 16 rows x 4 columns

// Everything that a kernel needs to know about a quantised type. `offset_shift`: log2 of the
// offset, or -1 for offset 0. `largest_code`: of the unsigned codes after the table.
template <DType type>
struct PackedFormat;

#define QUIRE_PACKED_FORMAT(name, code_form, scale_form, code_table, shift, largest) \
  template <>                                                                        \
  struct PackedFormat<DType::name> {                                                 \
    static constexpr DType kType = DType::name;                                      \
    static constexpr CodeForm kCodes = CodeForm::code_form;                          \
    static constexpr ScaleForm kScales = ScaleForm::scale_form;                      \
    static constexpr CodeTable kTable = CodeTable::code_table;                       \
    static constexpr int kOffsetShift = shift;                                       \
    static constexpr int kLargestCode = largest;                                     \
  }
QUIRE_PACKED_FORMAT(q4_0, nibbles, half, none, 3, 15);
QUIRE_PACKED_FORMAT(q4_1, nibbles, half_min, none, -1, 15);
QUIRE_PACKED_FORMAT(q5_0, nibbles_1, half, none, 4, 31);
QUIRE_PACKED_FORMAT(q5_1, nibbles_1, half_min, none, -1, 31);
QUIRE_PACKED_FORMAT(q8_0, bytes, half, none, 7, 255);
QUIRE_PACKED_FORMAT(q2_k, pairs, super_16_min, none, -1, 3);
QUIRE_PACKED_FORMAT(q3_k, pairs_1, super_16, none, 2, 7);
QUIRE_PACKED_FORMAT(q4_k, nibbles, super_min, none, -1, 15);
QUIRE_PACKED_FORMAT(q5_k, nibbles_1, super_min, none, -1, 31);
QUIRE_PACKED_FORMAT(q6_k, nibbles_2, super_16, none, 5, 63);
QUIRE_PACKED_FORMAT(iq4_nl, nibbles, half, iq4, 7, 241);
QUIRE_PACKED_FORMAT(iq4_xs, nibbles, super, iq4, 7, 241);
QUIRE_PACKED_FORMAT(mxfp4, nibbles, bfloat, mxfp4, 4, 28);
#undef QUIRE_PACKED_FORMAT

// Unsigned codes of the table types: the value plus 128 (iq4; and the values themselves), or twice
// the value plus 16 (mxfp4).
constexpr std::uint8_t kIq4Codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                        129, 141, 153, 166, 181, 197, 217, 241};
constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::uint8_t kMxfp4Codes[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                          16, 15, 14, 13, 12, 10, 8,  4};

constexpr int vectors_of_group(CodeForm form) {
  switch (form) {
    case CodeForm::nibbles:
      return 4;
    case CodeForm::nibbles_1:
      return 5;
    case CodeForm::nibbles_2:
      return 6;
    case CodeForm::bytes:
      return 8;
    case CodeForm::pairs:
      return 2;
    case CodeForm::pairs_1:
      return 3;
  }
  return 0;
}

constexpr int groups_of_record(ScaleForm form) {
  return form == ScaleForm::half || form == ScaleForm::bfloat || form == ScaleForm::half_min ? 2
                                                                                             : 8;
}

constexpr int scale_bytes_of_record(ScaleForm form) {
  switch (form) {
    case ScaleForm::half:
    case ScaleForm::bfloat:
      return 64;
    case ScaleForm::half_min:
      return 128;
    case ScaleForm::super:
      return 64 + 128;
    case ScaleForm::super_min:
      return 64 + 256;
    case ScaleForm::super_16:
    case ScaleForm::super_16_min:
      return 64 + 256;
  }
  return 0;
}

// The same as constants, so that no shared function is compiled for one instruction set and then
// linked into code for another.
template <class Format>
struct PackedSizes {
  static constexpr int kGroups = groups_of_record(Format::kScales);
  static constexpr int kGroupBytes = vectors_of_group(Format::kCodes) * kVectorBytes;
  static constexpr int kCodeBytes = kGroups * kGroupBytes;
  static constexpr int kRecordBytes = kCodeBytes + scale_bytes_of_record(Format::kScales);
  static constexpr int kColumns = kGroups * kGroup;
  // Parts of a group with a scale of their own: 2 halves of 16 columns, or the whole.
  static constexpr int kParts =
      Format::kScales == ScaleForm::super_16 || Format::kScales == ScaleForm::super_16_min ? 2 : 1;
  static constexpr bool kMinimum = Format::kScales == ScaleForm::half_min ||
                                   Format::kScales == ScaleForm::super_min ||
                                   Format::kScales == ScaleForm::super_16_min;
  // The minimum is subtracted, not added.
  static constexpr bool kSubtracts = kMinimum && Format::kScales != ScaleForm::half_min;
  static constexpr int kOffset = Format::kOffsetShift < 0 ? 0 : 1 << Format::kOffsetShift;
};

// Calls visitor.template operator()<PackedFormat<type>>() for a quantised type and returns true;
// false for others.
template <class Visitor>
bool visit_packed_format(DType type, Visitor&& visitor) {
  switch (type) {
    case DType::q8_0:
      visitor.template operator()<PackedFormat<DType::q8_0>>();
      return true;
    case DType::q4_0:
      visitor.template operator()<PackedFormat<DType::q4_0>>();
      return true;
    case DType::q4_1:
      visitor.template operator()<PackedFormat<DType::q4_1>>();
      return true;
    case DType::q5_0:
      visitor.template operator()<PackedFormat<DType::q5_0>>();
      return true;
    case DType::q5_1:
      visitor.template operator()<PackedFormat<DType::q5_1>>();
      return true;
    case DType::q2_k:
      visitor.template operator()<PackedFormat<DType::q2_k>>();
      return true;
    case DType::q3_k:
      visitor.template operator()<PackedFormat<DType::q3_k>>();
      return true;
    case DType::q4_k:
      visitor.template operator()<PackedFormat<DType::q4_k>>();
      return true;
    case DType::q5_k:
      visitor.template operator()<PackedFormat<DType::q5_k>>();
      return true;
    case DType::q6_k:
      visitor.template operator()<PackedFormat<DType::q6_k>>();
      return true;
    case DType::iq4_nl:
      visitor.template operator()<PackedFormat<DType::iq4_nl>>();
      return true;
    case DType::iq4_xs:
      visitor.template operator()<PackedFormat<DType::iq4_xs>>();
      return true;
    case DType::mxfp4:
      visitor.template operator()<PackedFormat<DType::mxfp4>>();
      return true;
    default:
      return false;
  }
}

}  // namespace quire::cpu
