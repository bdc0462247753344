#include "cpu/pack_expand.h"

#include <cstring>

#include "tensor/blocks.h"

namespace quire::cpu {
namespace {

using Byte = std::uint8_t;

float half_at(const Byte* from, int index) {
  std::uint16_t bits;
  std::memcpy(&bits, from + 2 * index, sizeof bits);
  return half_to_float(bits);
}

float bfloat_at(const Byte* from, int index) {
  std::uint16_t bits;
  std::memcpy(&bits, from + 2 * index, sizeof bits);
  return bfloat16_to_float(bits);
}

template <CodeForm form>
int code_at(const Byte* group, int row, int column) {
  const int quad = column / 4;
  const int lane = 4 * row + column % 4;
  if constexpr (form == CodeForm::bytes) return group[kVectorBytes * quad + lane];
  if constexpr (form == CodeForm::pairs || form == CodeForm::pairs_1) {
    int code = group[kVectorBytes * (quad / 4) + lane] >> (2 * (quad % 4)) & 3;
    if constexpr (form == CodeForm::pairs_1) {
      code |= (group[kVectorBytes * 2 + lane] >> quad & 1) << 2;
    }
    return code;
  }
  int code = group[kVectorBytes * (quad % 4) + lane] >> (quad < 4 ? 0 : 4) & 15;
  if constexpr (form == CodeForm::nibbles_1) {
    code |= (group[kVectorBytes * 4 + lane] >> quad & 1) << 4;
  }
  if constexpr (form == CodeForm::nibbles_2) {
    code |= (group[kVectorBytes * (4 + quad / 4) + lane] >> (2 * (quad % 4)) & 3) << 4;
  }
  return code;
}

template <class Format>
void expand_scales(const Byte* scales, int group, int first_row, int last_row, ExpandedGroup& to) {
  for (int row = first_row; row < last_row; ++row) {
    to.minimum[0][row] = to.minimum[1][row] = -0.0f;
    if constexpr (Format::kScales == ScaleForm::half) {
      to.scale[0][row] = half_at(scales, 16 * group + row);
    } else if constexpr (Format::kScales == ScaleForm::bfloat) {
      to.scale[0][row] = bfloat_at(scales, 16 * group + row);
    } else if constexpr (Format::kScales == ScaleForm::half_min) {
      to.scale[0][row] = half_at(scales, 16 * group + row);
      to.minimum[0][row] = half_at(scales, 32 + 16 * group + row);
    } else {
      const float scale = half_at(scales, row);
      const Byte* factors = scales + 64;
      if constexpr (Format::kScales == ScaleForm::super) {
        to.scale[0][row] =
            scale * static_cast<float>(static_cast<std::int8_t>(factors[16 * group + row]));
      } else if constexpr (Format::kScales == ScaleForm::super_min) {
        to.scale[0][row] = scale * static_cast<float>(factors[16 * group + row]);
        to.minimum[0][row] =
            -(half_at(scales, 16 + row) * static_cast<float>(factors[128 + 16 * group + row]));
      } else {
        for (int part = 0; part < 2; ++part) {
          const Byte factor = factors[16 * (2 * group + part) + row];
          if constexpr (Format::kScales == ScaleForm::super_16) {
            to.scale[part][row] = scale * static_cast<float>(static_cast<std::int8_t>(factor));
          } else {
            to.scale[part][row] = scale * static_cast<float>(factor & 15);
            to.minimum[part][row] = -(half_at(scales, 16 + row) * static_cast<float>(factor >> 4));
          }
        }
      }
    }
  }
}

template <class Format>
void expand(const Byte* record, int group, int first_row, int last_row, ExpandedGroup& to) {
  using Sizes = PackedSizes<Format>;
  const Byte* codes = record + group * Sizes::kGroupBytes;
  for (int row = first_row; row < last_row; ++row) {
    for (int column = 0; column < kGroup; ++column) {
      int code = code_at<Format::kCodes>(codes, row, column);
      if constexpr (Format::kTable == CodeTable::iq4) code = kIq4Codes[code];
      if constexpr (Format::kTable == CodeTable::mxfp4) code = kMxfp4Codes[code];
      to.codes[row][column] = static_cast<std::int16_t>(code - Sizes::kOffset);
    }
  }
  to.parts = Sizes::kParts;
  to.minimums = Sizes::kMinimum;
  expand_scales<Format>(record + Sizes::kCodeBytes, group, first_row, last_row, to);
}

}  // namespace

void expand_group(DType type, const std::byte* record, int group, ExpandedGroup& to) {
  visit_packed_format(type, [&]<class Format>() {
    expand<Format>(reinterpret_cast<const Byte*>(record), group, 0, 16, to);
  });
}

void expand_row(DType type, const std::byte* record, int group, int row, float* to) {
  ExpandedGroup expanded;
  visit_packed_format(type, [&]<class Format>() {
    expand<Format>(reinterpret_cast<const Byte*>(record), group, row, row + 1, expanded);
  });
  for (int column = 0; column < kGroup; ++column)
    to[column] = expanded_weight(expanded, row, column);
}

RecordShape record_shape(DType type) {
  RecordShape shape;
  visit_packed_format(type, [&]<class Format>() {
    using Sizes = PackedSizes<Format>;
    shape = {Sizes::kColumns, Sizes::kGroups, Sizes::kRecordBytes};
  });
  return shape;
}

}  // namespace quire::cpu
