#include "cpu/pack_unpack.h"

#include <cstring>

#include "tensor/blocks.h"

namespace quire::cpu {
namespace {

using Byte = std::uint8_t;

std::uint16_t read_u16(const Byte* from) {
  return static_cast<std::uint16_t>(from[0] | from[1] << 8);
}

std::uint32_t read_u32(const Byte* from) {
  return static_cast<std::uint32_t>(read_u16(from)) | static_cast<std::uint32_t>(read_u16(from + 2))
                                                          << 16;
}

// Low nibbles are elements 0-15, high ones 16-31.
void split_nibbles(const Byte* from, Byte* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = from[j] & 15;
    codes[j + 16] = from[j] >> 4;
  }
}

// Bit j is bit 4 of element j. The product puts bit i of a nibble at bit 8 i + 4.
void add_fifth_bits(std::uint32_t bits, Byte* codes) {
  for (int j = 0; j < 32; j += 4) {
    const std::uint32_t spread = ((bits >> j & 15) * 0x00204081u & 0x01010101u) << 4;
    std::uint32_t four;
    std::memcpy(&four, codes + j, sizeof four);
    four |= spread;
    std::memcpy(codes + j, &four, sizeof four);
  }
}

// codes[l] = bits of from[l], for 32 elements.
void take_bits(const Byte* from, int shift, int mask, Byte* codes) {
  for (int l = 0; l < 32; ++l) codes[l] = static_cast<Byte>(from[l] >> shift & mask);
}

// Puts bits of from[l] above those that codes[l] has.
void add_bits(const Byte* from, int shift, int mask, int place, Byte* codes) {
  for (int l = 0; l < 32; ++l) codes[l] |= static_cast<Byte>((from[l] >> shift & mask) << place);
}

void unpack_small(DType type, const Byte* from, int group, RowRecord& record) {
  Byte* codes = record.codes + 32 * group;
  record.scale[group] = read_u16(from);
  switch (type) {
    case DType::q4_0:
    case DType::iq4_nl:
      split_nibbles(from + 2, codes);
      break;
    case DType::q4_1:
      record.minimum[group] = read_u16(from + 2);
      split_nibbles(from + 4, codes);
      break;
    case DType::q5_0:
      split_nibbles(from + 6, codes);
      add_fifth_bits(read_u32(from + 2), codes);
      break;
    case DType::q5_1:
      record.minimum[group] = read_u16(from + 2);
      split_nibbles(from + 8, codes);
      add_fifth_bits(read_u32(from + 4), codes);
      break;
    case DType::q8_0:
      for (int j = 0; j < 32; ++j) codes[j] = from[2 + j] ^ 0x80;
      break;
    case DType::mxfp4: {
      // Scale of the doubled values: 2^(e - 128); bfloat16 has it exactly, below e = 2 as a
      // subnormal.
      const Byte e = from[0];
      record.scale[group] = static_cast<std::uint16_t>(e < 2 ? 0x20 << e : (e - 1) << 7);
      split_nibbles(from + 1, codes);
      break;
    }
    default:
      break;
  }
}

// The 6-bit factors of Q4_K and Q5_K.
void unpack_factors(const Byte* from, RowRecord& record) {
  for (int j = 0; j < 4; ++j) {
    record.factor[j] = from[j] & 63;
    record.minimum_factor[j] = from[j + 4] & 63;
    record.factor[j + 4] = static_cast<Byte>((from[j + 8] & 15) | (from[j] >> 6) << 4);
    record.minimum_factor[j + 4] = static_cast<Byte>((from[j + 8] >> 4) | (from[j + 4] >> 6) << 4);
  }
}

void unpack_q2_k(const Byte* from, RowRecord& record) {
  std::memcpy(record.factor, from, 16);
  record.scale[0] = read_u16(from + 80);
  record.minimum[0] = read_u16(from + 82);
  for (int chunk = 0; chunk < 8; ++chunk) {
    const Byte* bits = from + 16 + chunk / 4 * 32;
    take_bits(bits, 2 * (chunk % 4), 3, record.codes + 32 * chunk);
  }
}

void unpack_q3_k(const Byte* from, RowRecord& record) {
  record.scale[0] = read_u16(from + 108);
  const Byte* packed = from + 96;
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
    const int high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
    record.factor[i] = static_cast<Byte>((low | high << 4) - 32);
  }
  for (int chunk = 0; chunk < 8; ++chunk) {
    take_bits(from + 32 + chunk / 4 * 32, 2 * (chunk % 4), 3, record.codes + 32 * chunk);
    add_bits(from, chunk, 1, 2, record.codes + 32 * chunk);
  }
}

void unpack_q4_k(const Byte* from, RowRecord& record) {
  record.scale[0] = read_u16(from);
  record.minimum[0] = read_u16(from + 2);
  unpack_factors(from + 4, record);
  for (int chunk = 0; chunk < 8; ++chunk) {
    take_bits(from + 16 + chunk / 2 * 32, chunk % 2 * 4, 15, record.codes + 32 * chunk);
  }
}

void unpack_q5_k(const Byte* from, RowRecord& record) {
  record.scale[0] = read_u16(from);
  record.minimum[0] = read_u16(from + 2);
  unpack_factors(from + 4, record);
  for (int chunk = 0; chunk < 8; ++chunk) {
    take_bits(from + 48 + chunk / 2 * 32, chunk % 2 * 4, 15, record.codes + 32 * chunk);
    add_bits(from + 16, chunk, 1, 4, record.codes + 32 * chunk);
  }
}

void unpack_q6_k(const Byte* from, RowRecord& record) {
  std::memcpy(record.factor, from + 192, 16);
  record.scale[0] = read_u16(from + 208);
  for (int chunk = 0; chunk < 8; ++chunk) {
    const int half = chunk / 4, r = chunk % 4;
    take_bits(from + 64 * half + 32 * (r % 2), r / 2 * 4, 15, record.codes + 32 * chunk);
    add_bits(from + 128 + 32 * half, 2 * r, 3, 4, record.codes + 32 * chunk);
  }
}

void unpack_iq4_xs(const Byte* from, RowRecord& record) {
  record.scale[0] = read_u16(from);
  const int scales_high = read_u16(from + 2);
  for (int b = 0; b < 8; ++b) {
    const int low = from[4 + b / 2] >> (4 * (b % 2)) & 15;
    record.factor[b] = static_cast<Byte>((low | (scales_high >> (2 * b) & 3) << 4) - 32);
    split_nibbles(from + 8 + 16 * b, record.codes + 32 * b);
  }
}

}  // namespace

void unpack_record(DType type, const std::byte* stored, int blocks, RowRecord& record) {
  const Byte* from = reinterpret_cast<const Byte*>(stored);
  const int whole = info(type).block == 256 ? 1 : 2;
  if (blocks < whole) std::memset(&record, 0, sizeof record);  // nothing is left from another row
  if (blocks == 0) return;
  switch (type) {
    case DType::q2_k:
      unpack_q2_k(from, record);
      return;
    case DType::q3_k:
      unpack_q3_k(from, record);
      return;
    case DType::q4_k:
      unpack_q4_k(from, record);
      return;
    case DType::q5_k:
      unpack_q5_k(from, record);
      return;
    case DType::q6_k:
      unpack_q6_k(from, record);
      return;
    case DType::iq4_xs:
      unpack_iq4_xs(from, record);
      return;
    default:
      for (int group = 0; group < blocks; ++group) {
        unpack_small(type, from + group * info(type).block_bytes, group, record);
      }
  }
}

}  // namespace quire::cpu
