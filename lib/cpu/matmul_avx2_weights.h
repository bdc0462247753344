#pragma once

#include <immintrin.h>

#include "cpu/matmul_unroll.h"
#include "cpu/packed_format.h"

// Reading of packed weights with AVX2. Only for files compiled for it.

namespace quire::cpu {
namespace {

QUIRE_ALWAYS_INLINE inline __m256i load_bytes(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

template <class Byte>
QUIRE_ALWAYS_INLINE inline __m256i load_table(const Byte* table) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// Bits moved up by so many places, or down.
template <int places>
QUIRE_ALWAYS_INLINE inline __m256i shifted(__m256i bits) {
  if constexpr (places == 0) return bits;
  return places >= 0 ? _mm256_slli_epi16(bits, places >= 0 ? places : 0)
                     : _mm256_srli_epi16(bits, places >= 0 ? 0 : -places);
}

// The unsigned codes of one quad of columns, before any table, 8 rows: byte 4 r + c is row r,
// column 4 quad + c. `group` points to the half's 32 bytes of the group's first vector.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m256i load_stored_codes(const std::byte* group) {
  if constexpr (Format::kCodes == CodeForm::bytes) return load_bytes(group + kVectorBytes * quad);
  if constexpr (Format::kCodes == CodeForm::pairs || Format::kCodes == CodeForm::pairs_1) {
    const __m256i four = load_bytes(group + kVectorBytes * (quad / 4));
    const __m256i codes = _mm256_and_si256(shifted<-2 * (quad % 4)>(four), _mm256_set1_epi8(3));
    if constexpr (Format::kCodes == CodeForm::pairs) return codes;
    const __m256i bits = load_bytes(group + kVectorBytes * 2);
    return _mm256_or_si256(codes, _mm256_and_si256(shifted<2 - quad>(bits), _mm256_set1_epi8(4)));
  }
  const __m256i pairs = load_bytes(group + kVectorBytes * (quad % 4));
  const __m256i low_bits = _mm256_set1_epi8(15);
  const __m256i codes = _mm256_and_si256(shifted<quad / 4 * -4>(pairs), low_bits);
  if constexpr (Format::kCodes == CodeForm::nibbles_1) {
    const __m256i bits = load_bytes(group + kVectorBytes * 4);
    return _mm256_or_si256(codes, _mm256_and_si256(shifted<4 - quad>(bits), _mm256_set1_epi8(16)));
  }
  if constexpr (Format::kCodes == CodeForm::nibbles_2) {
    const __m256i bits = load_bytes(group + kVectorBytes * (4 + quad / 4));
    return _mm256_or_si256(
        codes, _mm256_and_si256(shifted<4 - 2 * (quad % 4)>(bits), _mm256_set1_epi8(48)));
  }
  return codes;
}

// The unsigned codes of the same quad.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m256i load_codes(const std::byte* group) {
  const __m256i codes = load_stored_codes<Format, quad>(group);
  if constexpr (Format::kTable == CodeTable::iq4)
    return _mm256_shuffle_epi8(load_table(kIq4Codes), codes);
  if constexpr (Format::kTable == CodeTable::mxfp4)
    return _mm256_shuffle_epi8(load_table(kMxfp4Codes), codes);
  return codes;
}

// The same less an offset of 128, of a type that has it.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m256i load_signed_codes(const std::byte* group) {
  const __m256i codes = load_stored_codes<Format, quad>(group);
  if constexpr (Format::kTable == CodeTable::iq4)
    return _mm256_shuffle_epi8(load_table(kIq4Values), codes);
  return _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
}

QUIRE_ALWAYS_INLINE inline __m128i load_16_bytes(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

QUIRE_ALWAYS_INLINE inline __m256 load_halves(const std::byte* from) {
  return _mm256_cvtph_ps(load_16_bytes(from));
}

QUIRE_ALWAYS_INLINE inline __m256 load_bfloats(const std::byte* from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(from)), 16));
}

QUIRE_ALWAYS_INLINE inline __m128i load_factors(const std::byte* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

QUIRE_ALWAYS_INLINE inline __m256 times(__m256 scale, __m256i factor) {
  return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(factor));
}

// Scales of 8 rows for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline __m256 load_scale(const std::byte* scales, int group, int half) {
  const std::byte* halves = scales + 16 * half;
  const std::byte* factors = scales + 64 + 8 * half;
  if constexpr (Format::kScales == ScaleForm::half || Format::kScales == ScaleForm::half_min) {
    return load_halves(halves + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return load_bfloats(halves + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::super) {
    return times(load_halves(halves), _mm256_cvtepi8_epi32(load_factors(factors + 16 * group)));
  } else if constexpr (Format::kScales == ScaleForm::super_min) {
    return times(load_halves(halves), _mm256_cvtepu8_epi32(load_factors(factors + 16 * group)));
  } else {
    const __m128i factor = load_factors(factors + 16 * (2 * group + part));
    if constexpr (Format::kScales == ScaleForm::super_16) {
      return times(load_halves(halves), _mm256_cvtepi8_epi32(factor));
    } else {
      const __m128i low = _mm_and_si128(factor, _mm_set1_epi8(15));
      return times(load_halves(halves), _mm256_cvtepu8_epi32(low));
    }
  }
}

// Minimums of a type that has them: to be added, or subtracted (kSubtracts).
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline __m256 load_minimum(const std::byte* scales, int group, int half) {
  const std::byte* halves = scales + 16 * half;
  const std::byte* factors = scales + 64 + 8 * half;
  if constexpr (Format::kScales == ScaleForm::half_min) {
    return load_halves(halves + 64 + 32 * group);
  } else if constexpr (Format::kScales == ScaleForm::super_min) {
    return times(load_halves(halves + 32),
                 _mm256_cvtepu8_epi32(load_factors(factors + 128 + 16 * group)));
  } else {
    const __m128i factor = _mm_srli_epi16(load_factors(factors + 16 * (2 * group + part)), 4);
    const __m128i high = _mm_and_si128(factor, _mm_set1_epi8(15));
    return times(load_halves(halves + 32), _mm256_cvtepu8_epi32(high));
  }
}

}  // namespace
}  // namespace quire::cpu
