#pragma once

#include <immintrin.h>

#include "cpu/matmul_unroll.h"
#include "cpu/packed_format.h"

// Reading of packed weights with AVX-512. Only for files compiled for it.

namespace quire::cpu {
namespace {

QUIRE_ALWAYS_INLINE inline __m512i load_bytes(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

QUIRE_ALWAYS_INLINE inline __m512i load_table(const std::uint8_t* table) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// Bits moved up by so many places, or down.
template <int places>
QUIRE_ALWAYS_INLINE inline __m512i shifted(__m512i bits) {
  if constexpr (places == 0) return bits;
  return places >= 0 ? _mm512_slli_epi16(bits, places >= 0 ? places : 0)
                     : _mm512_srli_epi16(bits, places >= 0 ? 0 : -places);
}

// codes | (bits & mask)
QUIRE_ALWAYS_INLINE inline __m512i with_bits(__m512i codes, __m512i bits, char mask) {
  return _mm512_ternarylogic_epi32(codes, bits, _mm512_set1_epi8(mask), 0xf8);
}

// The unsigned codes of one quad of columns: byte 4 r + c is row r, column 4 quad + c.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m512i load_codes(const std::byte* group) {
  if constexpr (Format::kCodes == CodeForm::bytes) return load_bytes(group + kVectorBytes * quad);
  if constexpr (Format::kCodes == CodeForm::pairs || Format::kCodes == CodeForm::pairs_1) {
    const __m512i four = load_bytes(group + kVectorBytes * (quad / 4));
    const __m512i codes = _mm512_and_si512(shifted<-2 * (quad % 4)>(four), _mm512_set1_epi8(3));
    if constexpr (Format::kCodes == CodeForm::pairs) return codes;
    return with_bits(codes, shifted<2 - quad>(load_bytes(group + kVectorBytes * 2)), 4);
  }
  const __m512i pairs = load_bytes(group + kVectorBytes * (quad % 4));
  const __m512i low_bits = _mm512_set1_epi8(15);
  const __m512i codes = _mm512_and_si512(shifted<quad / 4 * -4>(pairs), low_bits);
  if constexpr (Format::kCodes == CodeForm::nibbles_1)
    return with_bits(codes, shifted<4 - quad>(load_bytes(group + kVectorBytes * 4)), 16);
  if constexpr (Format::kCodes == CodeForm::nibbles_2) {
    const __m512i bits = load_bytes(group + kVectorBytes * (4 + quad / 4));
    return with_bits(codes, shifted<4 - 2 * (quad % 4)>(bits), 48);
  }
  if constexpr (Format::kTable == CodeTable::iq4)
    return _mm512_shuffle_epi8(load_table(kIq4Codes), codes);
  if constexpr (Format::kTable == CodeTable::mxfp4)
    return _mm512_shuffle_epi8(load_table(kMxfp4Codes), codes);
  return codes;
}

QUIRE_ALWAYS_INLINE inline __m512 load_halves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

QUIRE_ALWAYS_INLINE inline __m512 load_bfloats(const std::byte* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

QUIRE_ALWAYS_INLINE inline __m128i load_factors(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

QUIRE_ALWAYS_INLINE inline __m512 times(__m512 scale, __m512i factor) {
  return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor));
}

// Scales of the 16 rows for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline __m512 load_scale(const std::byte* scales, int group) {
  const std::byte* factors = scales + 64;
  if constexpr (Format::kScales == ScaleForm::half || Format::kScales == ScaleForm::half_min) {
    return load_halves(scales + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return load_bfloats(scales + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::super) {
    return times(load_halves(scales), _mm512_cvtepi8_epi32(load_factors(factors + 16 * group)));
  } else if constexpr (Format::kScales == ScaleForm::super_min) {
    return times(load_halves(scales), _mm512_cvtepu8_epi32(load_factors(factors + 16 * group)));
  } else {
    const __m128i factor = load_factors(factors + 16 * (2 * group + part));
    if constexpr (Format::kScales == ScaleForm::super_16) {
      return times(load_halves(scales), _mm512_cvtepi8_epi32(factor));
    } else {
      const __m128i low = _mm_and_si128(factor, _mm_set1_epi8(15));
      return times(load_halves(scales), _mm512_cvtepu8_epi32(low));
    }
  }
}

// Minimums of a type that has them: to be added, or subtracted (kSubtracts).
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline __m512 load_minimum(const std::byte* scales, int group) {
  const std::byte* factors = scales + 64;
  if constexpr (Format::kScales == ScaleForm::half_min) {
    return load_halves(scales + 64 + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::super_min) {
    return times(load_halves(scales + 32),
                 _mm512_cvtepu8_epi32(load_factors(factors + 128 + 16 * group)));
  } else {
    const __m128i factor = _mm_srli_epi16(load_factors(factors + 16 * (2 * group + part)), 4);
    const __m128i high = _mm_and_si128(factor, _mm_set1_epi8(15));
    return times(load_halves(scales + 32), _mm512_cvtepu8_epi32(high));
  }
}

}  // namespace
}  // namespace quire::cpu
