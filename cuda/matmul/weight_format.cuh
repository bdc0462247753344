#pragma once

#include <cstdint>

#include "matmul/instructions.cuh"
#include "matmul/weight_kind.h"

// Records of weights (see WeightKind) to fragments of mma.m16n8k16, in registers.
namespace quire::cuda {

// The values of the 16 codes of code4_table, as signed bytes.
struct CodeTable {
  std::uint32_t words[4];
};

__device__ __forceinline__ uint4 load16(const std::byte* from) {
  return *reinterpret_cast<const uint4*>(from);
}

// A code below 128 in each half of a register, as 128 + code.
inline constexpr std::uint32_t kPlus128 = 0x43004300;

// A word shifted so that bit `from` lands on bit `to`.
template <int from, int to>
__device__ __forceinline__ std::uint32_t moved(std::uint32_t word) {
  if constexpr (from >= to) {
    return word >> (from - to);
  } else {
    return word << (to - from);
  }
}

// The codes of one lane in a record; pair<t, j>() is 128 + code of the two elements of a pair.
template <int kBits>
struct LaneCodes {
  std::uint32_t four[4], two[2], one;

  __device__ __forceinline__ void load(const std::byte* record, int lane) {
    if constexpr ((kBits & 4) != 0) {
      const uint4 v = load16(record + lane * 16);
      four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
      record += 512;
    }
    if constexpr ((kBits & 2) != 0) {
      const uint2 v = *reinterpret_cast<const uint2*>(record + lane * 8);
      two[0] = v.x, two[1] = v.y;
      record += 256;
    }
    if constexpr ((kBits & 1) != 0) {
      one = *reinterpret_cast<const std::uint32_t*>(record + lane * 4);
    }
  }

  template <int tile, int pair>
  __device__ __forceinline__ std::uint32_t plus128() const {
    constexpr int kLow = kBits & 4, kMiddle = kBits & 2;
    constexpr int kField = 4 * (tile % 2) + pair;
    std::uint32_t codes = kPlus128;
    if constexpr (kLow != 0) codes = masked_or(moved<4 * pair, 0>(four[tile]), 0x000f000f, codes);
    if constexpr (kMiddle != 0) {
      codes = masked_or(moved<2 * kField, kLow>(two[tile / 2]), 0x00030003u << kLow, codes);
    }
    if constexpr ((kBits & 1) != 0) {
      constexpr int kTop = kLow + kMiddle;
      codes = masked_or(moved<4 * tile + pair, kTop>(one), 0x00010001u << kTop, codes);
    }
    return codes;
  }
};

// Signed bytes in halves' low bytes, as bfloat16.
__device__ __forceinline__ std::uint32_t signed_bytes(std::uint32_t word) {
  return subtract2(masked_or(word, 0x007f007f, kPlus128), masked_or(word, 0x00800080, kPlus128));
}

// The integers of a lane's weights: those of the code less its centre, or from a table.
template <WeightKind kKind>
struct LaneIntegers {
  static constexpr WeightShape kShape = shape_of(kKind);
  LaneCodes<kShape.code_bits> codes;

  __device__ __forceinline__ void load(const std::byte* record, int lane, const CodeTable&) {
    codes.load(record, lane);
  }
  template <int tile, int pair>
  __device__ __forceinline__ std::uint32_t get() const {
    constexpr std::uint32_t kCentre = kPlus128 + kShape.centre * 0x00010001u;
    return subtract2(codes.template plus128<tile, pair>(), kCentre);
  }
};

template <>
struct LaneIntegers<WeightKind::code8> {
  std::uint32_t words[8];

  __device__ __forceinline__ void load(const std::byte* record, int lane, const CodeTable&) {
    const uint4 a = load16(record + lane * 16), b = load16(record + 512 + lane * 16);
    words[0] = a.x, words[1] = a.y, words[2] = a.z, words[3] = a.w;
    words[4] = b.x, words[5] = b.y, words[6] = b.z, words[7] = b.w;
  }
  template <int tile, int pair>
  __device__ __forceinline__ std::uint32_t get() const {
    return signed_bytes(words[2 * tile + pair / 2] >> (8 * (pair % 2)));
  }
};

template <>
struct LaneIntegers<WeightKind::code4_table> {
  std::uint32_t low[4], high[4];  // bytes of the first and of the second elements of a tile's pairs

  // The table's bytes at four codes, in the low four nibbles.
  static __device__ __forceinline__ std::uint32_t look_up(std::uint32_t codes,
                                                          const CodeTable& table) {
    const std::uint32_t within = codes & 0x7777;
    const std::uint32_t below = __byte_perm(table.words[0], table.words[1], within);
    const std::uint32_t above = __byte_perm(table.words[2], table.words[3], within);
    return __byte_perm(below, above, 0x3210 | (codes & 0x8888) >> 1);
  }
  __device__ __forceinline__ void load(const std::byte* record, int lane, const CodeTable& table) {
    const uint4 v = load16(record + lane * 16);
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      low[tile] = look_up(words[tile], table);
      high[tile] = look_up(words[tile] >> 16, table);
    }
  }
  template <int tile, int pair>
  __device__ __forceinline__ std::uint32_t get() const {
    return signed_bytes(__byte_perm(low[tile], high[tile], pair | (4 + pair) << 8));
  }
};

// Scales and offsets of the two rows of a lane.
template <WeightShape kShape>
struct LaneScales {
  static constexpr int kHalf = kShape.groups / 2;  // words of the scales of a row
  static constexpr int kWords = kHalf * (kShape.offset ? 2 : 1);
  std::uint32_t words[2 * kWords];

  __device__ __forceinline__ void load(const std::byte* scales, int lane) {
    const std::byte* from = scales + lane / 4 * (2 * kWords * 4);
    if constexpr (kWords == 1) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      words[0] = v.x, words[1] = v.y;
    } else {
#pragma unroll
      for (int i = 0; i < kWords / 2; ++i) {
        const uint4 v = load16(from + 16 * i);
        words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
      }
    }
  }
  template <int tile, int row, int first>
  __device__ __forceinline__ std::uint32_t twice() const {
    constexpr int kGroup = kShape.groups == 2 ? tile / 2 : tile;
    return both_halves<kGroup % 2 == 1>(words[row * kWords + first + kGroup / 2]);
  }
  template <int tile, int row>
  __device__ __forceinline__ std::uint32_t scale() const {
    return twice<tile, row, 0>();
  }
  template <int tile, int row>
  __device__ __forceinline__ std::uint32_t offset() const {
    return twice<tile, row, kHalf>();
  }
};

// One lane's part of a record: load it, then take the fragments of its four tiles. A weight is the
// sum of kParts bfloat16.
template <WeightKind kKind>
struct LaneWeights {
  static constexpr WeightShape kShape = shape_of(kKind);
  static constexpr int kParts = 1;
  LaneIntegers<kKind> integers;
  LaneScales<kShape> scales;

  __device__ __forceinline__ void load(const std::byte* record, int lane, const CodeTable& table) {
    integers.load(record, lane, table);
    scales.load(record + code_bytes(kKind), lane);
  }
  template <int tile, int pair>
  __device__ __forceinline__ std::uint32_t weights() const {
    const std::uint32_t value = integers.template get<tile, pair>();
    const std::uint32_t scale = scales.template scale<tile, pair % 2>();
    if constexpr (kShape.offset) {
      return multiply_add2(value, scale, scales.template offset<tile, pair % 2>());
    } else {
      return multiply2(value, scale);
    }
  }
  template <int tile>
  __device__ __forceinline__ void fragment(std::uint32_t (&to)[kParts][4]) const {
    to[0][0] = weights<tile, 0>();
    to[0][1] = weights<tile, 1>();
    to[0][2] = weights<tile, 2>();
    to[0][3] = weights<tile, 3>();
  }
};

// A float32 weight as two bfloat16, 16 bits of its fraction.
template <>
struct LaneWeights<WeightKind::float32> {
  static constexpr int kParts = 2;
  const std::byte* record;

  __device__ __forceinline__ void load(const std::byte* from, int lane, const CodeTable&) {
    record = from + lane * 16;
  }
  static __device__ __forceinline__ void split(float a, float b, std::uint32_t& high,
                                               std::uint32_t& low) {
    high = pack2(a, b);
    low = pack2(a - __uint_as_float(high << 16), b - __uint_as_float(high & 0xffff0000u));
  }
  template <int tile>
  __device__ __forceinline__ void fragment(std::uint32_t (&to)[kParts][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 v = *reinterpret_cast<const float4*>(record + (2 * tile + half) * 512);
      split(v.x, v.y, to[0][2 * half], to[1][2 * half]);
      split(v.z, v.w, to[0][2 * half + 1], to[1][2 * half + 1]);
    }
  }
};

// Sixteen rows of bfloat16 in shared memory, 128 bytes each, the 16-byte pieces of row r at
// piece ^ (r % 8).
template <>
struct LaneWeights<WeightKind::bfloat> {
  static constexpr int kParts = 1;
  std::uint32_t row_address;
  int row, piece;

  __device__ __forceinline__ void load(const std::byte* from, int lane, const CodeTable&) {
    row = lane % 8;
    piece = lane / 16;
    row_address = shared_address(from) + (lane % 16) * 128;
  }
  template <int tile>
  __device__ __forceinline__ void fragment(std::uint32_t (&to)[kParts][4]) const {
    load_matrices(to[0], row_address + (((2 * tile + piece) ^ row) * 16));
  }
};

}  // namespace quire::cuda
