#pragma once

#include <arm_neon.h>

#include "cpu/matmul_unroll.h"
#include "cpu/packed_format.h"

// Reading of packed weights with NEON.

namespace quire::cpu {
namespace {

QUIRE_ALWAYS_INLINE inline const std::uint8_t* bytes_at(const std::byte* from) {
  return reinterpret_cast<const std::uint8_t*>(from);
}

// Bits moved up by so many places, or down.
template <int places>
QUIRE_ALWAYS_INLINE inline uint8x16_t shifted(uint8x16_t bits) {
  if constexpr (places == 0) {
    return bits;
  } else if constexpr (places > 0) {
    return vshlq_n_u8(bits, places);
  } else {
    return vshrq_n_u8(bits, -places);
  }
}

// codes | (bits & mask)
QUIRE_ALWAYS_INLINE inline uint8x16_t with_bits(uint8x16_t codes, uint8x16_t bits,
                                                std::uint8_t mask) {
  return vorrq_u8(codes, vandq_u8(bits, vdupq_n_u8(mask)));
}

// The unsigned codes of one quad of columns, before any table, 4 rows: byte 4 r + c is row r,
// column 4 quad + c. `group` points to the rows' 16 bytes of the group's first vector.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline uint8x16_t load_stored_codes(const std::byte* group) {
  constexpr CodeForm kForm = Format::kCodes;
  auto vector = [&](int index) QUIRE_ALWAYS_INLINE {
    return vld1q_u8(bytes_at(group) + kVectorBytes * index);
  };
  if constexpr (kForm == CodeForm::bytes) {
    return vector(quad);
  } else if constexpr (kForm == CodeForm::pairs || kForm == CodeForm::pairs_1) {
    const uint8x16_t codes = vandq_u8(shifted<-2 * (quad % 4)>(vector(quad / 4)), vdupq_n_u8(3));
    if constexpr (kForm == CodeForm::pairs) return codes;
    return with_bits(codes, shifted<2 - quad>(vector(2)), 4);
  } else {
    const uint8x16_t pairs = vector(quad % 4);
    const uint8x16_t codes = quad < 4 ? vandq_u8(pairs, vdupq_n_u8(15)) : vshrq_n_u8(pairs, 4);
    if constexpr (kForm == CodeForm::nibbles_1)
      return with_bits(codes, shifted<4 - quad>(vector(4)), 16);
    if constexpr (kForm == CodeForm::nibbles_2)
      return with_bits(codes, shifted<4 - 2 * (quad % 4)>(vector(4 + quad / 4)), 48);
    return codes;
  }
}

// Whether load_codes() takes away an offset of 128, so that the codes are signed bytes.
template <class Format>
constexpr bool kSignedCodes = Format::kOffsetShift == 7;

// The codes of the same quad as signed bytes: less their offset if that is 128, else unsigned ones
// below 128.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline int8x16_t load_codes(const std::byte* group) {
  const uint8x16_t codes = load_stored_codes<Format, quad>(group);
  if constexpr (Format::kTable == CodeTable::iq4) return vqtbl1q_s8(vld1q_s8(kIq4Values), codes);
  if constexpr (Format::kTable == CodeTable::mxfp4)
    return vreinterpretq_s8_u8(vqtbl1q_u8(vld1q_u8(kMxfp4Codes), codes));
  if constexpr (Format::kCodes == CodeForm::bytes)
    return vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(0x80)));
  return vreinterpretq_s8_u8(codes);
}

QUIRE_ALWAYS_INLINE inline uint16x4_t load_16_bits(const std::byte* from) {
  return vreinterpret_u16_u8(vld1_u8(bytes_at(from)));
}

QUIRE_ALWAYS_INLINE inline float32x4_t load_halves(const std::byte* from) {
  return vcvt_f32_f16(vreinterpret_f16_u16(load_16_bits(from)));
}

QUIRE_ALWAYS_INLINE inline float32x4_t load_bfloats(const std::byte* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(load_16_bits(from), 16));
}

// Factors of 4 rows, in the low half.
QUIRE_ALWAYS_INLINE inline uint8x8_t load_factors(const std::byte* from) {
  std::uint32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return vreinterpret_u8_u32(vdup_n_u32(four));
}

QUIRE_ALWAYS_INLINE inline float32x4_t times(float32x4_t scale, uint8x8_t factors) {
  return vmulq_f32(scale, vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(factors)))));
}

QUIRE_ALWAYS_INLINE inline float32x4_t times_signed(float32x4_t scale, uint8x8_t factors) {
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(factors));
  return vmulq_f32(scale, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
}

// Scales of the 4 rows of vector `v` of a panel, for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline float32x4_t load_scale(const std::byte* scales, int group, int v) {
  const std::byte* halves = scales + 8 * v;
  const std::byte* factors = scales + 64 + 4 * v;
  if constexpr (Format::kScales == ScaleForm::half || Format::kScales == ScaleForm::half_min) {
    return load_halves(halves + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return load_bfloats(halves + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::super) {
    return times_signed(load_halves(halves), load_factors(factors + 16 * group));
  } else if constexpr (Format::kScales == ScaleForm::super_min) {
    return times(load_halves(halves), load_factors(factors + 16 * group));
  } else if constexpr (Format::kScales == ScaleForm::super_16) {
    return times_signed(load_halves(halves), load_factors(factors + 16 * (2 * group + part)));
  } else {
    const uint8x8_t both = load_factors(factors + 16 * (2 * group + part));
    return times(load_halves(halves), vand_u8(both, vdup_n_u8(15)));
  }
}

// Minimums of a type that has them: to be added, or subtracted (kSubtracts).
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline float32x4_t load_minimum(const std::byte* scales, int group, int v) {
  const std::byte* halves = scales + 8 * v;
  const std::byte* factors = scales + 64 + 4 * v;
  if constexpr (Format::kScales == ScaleForm::half_min) {
    return load_halves(halves + 64 + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::super_min) {
    return times(load_halves(halves + 32), load_factors(factors + 128 + 16 * group));
  } else {
    const uint8x8_t both = load_factors(factors + 16 * (2 * group + part));
    return times(load_halves(halves + 32), vshr_n_u8(both, 4));
  }
}

}  // namespace
}  // namespace quire::cpu
