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

// The unsigned codes of one quad of columns: byte 4 r + c is row r, column 4 quad + c.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m512i load_codes(const std::byte* group) {
  if constexpr (Format::kCodes == CodeForm::bytes) return load_bytes(group + kVectorBytes * quad);
  const __m512i pairs = load_bytes(group + kVectorBytes * (quad % 4));
  const __m512i low_bits = _mm512_set1_epi8(15);
  const __m512i codes = quad < 4 ? _mm512_and_si512(pairs, low_bits)
                                 : _mm512_and_si512(_mm512_srli_epi16(pairs, 4), low_bits);
  if constexpr (Format::kCodes == CodeForm::nibbles_1) {
    const __m512i bits = load_bytes(group + kVectorBytes * 4);
    const __m512i moved = quad <= 4 ? _mm512_slli_epi16(bits, 4 - (quad <= 4 ? quad : 4))
                                    : _mm512_srli_epi16(bits, quad <= 4 ? 0 : quad - 4);
    // codes | (moved & 16)
    return _mm512_ternarylogic_epi32(codes, moved, _mm512_set1_epi8(16), 0xf8);
  }
  if constexpr (Format::kCodes == CodeForm::nibbles_2) {
    const __m512i bits = load_bytes(group + kVectorBytes * (4 + quad / 4));
    constexpr int place = 2 * (quad % 4);
    const __m512i moved = place <= 4 ? _mm512_slli_epi16(bits, place <= 4 ? 4 - place : 0)
                                     : _mm512_srli_epi16(bits, place <= 4 ? 0 : place - 4);
    return _mm512_ternarylogic_epi32(codes, moved, _mm512_set1_epi8(48), 0xf8);
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

struct Scales {
  __m512 scale;
  __m512 minimum;  // to be added; only of types that have minimums
};

QUIRE_ALWAYS_INLINE inline __m512 negated(__m512 x) {
  return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

// Scales of the 16 rows for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline Scales load_scales(const std::byte* scales, int group) {
  if constexpr (Format::kScales == ScaleForm::half) {
    return {load_halves(scales + 32 * group), _mm512_setzero_ps()};
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return {load_bfloats(scales + 32 * group), _mm512_setzero_ps()};
  } else if constexpr (Format::kScales == ScaleForm::half_min) {
    return {load_halves(scales + 32 * group), load_halves(scales + 64 + 32 * group)};
  } else {
    const __m512 scale = load_halves(scales);
    const std::byte* factors = scales + 64;
    if constexpr (Format::kScales == ScaleForm::super) {
      const __m512i factor = _mm512_cvtepi8_epi32(load_factors(factors + 16 * group));
      return {_mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor)), _mm512_setzero_ps()};
    } else if constexpr (Format::kScales == ScaleForm::super_16) {
      const __m512i factor = _mm512_cvtepi8_epi32(load_factors(factors + 16 * (2 * group + part)));
      return {_mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor)), _mm512_setzero_ps()};
    } else {
      const __m512 minimum = negated(load_halves(scales + 32));
      __m512i factor, minimum_factor;
      if constexpr (Format::kScales == ScaleForm::super_min) {
        factor = _mm512_cvtepu8_epi32(load_factors(factors + 16 * group));
        minimum_factor = _mm512_cvtepu8_epi32(load_factors(factors + 128 + 16 * group));
      } else {
        const __m512i both = _mm512_cvtepu8_epi32(load_factors(factors + 16 * (2 * group + part)));
        factor = _mm512_and_si512(both, _mm512_set1_epi32(15));
        minimum_factor = _mm512_srli_epi32(both, 4);
      }
      return {_mm512_mul_ps(scale, _mm512_cvtepi32_ps(factor)),
              _mm512_mul_ps(minimum, _mm512_cvtepi32_ps(minimum_factor))};
    }
  }
}

}  // namespace
}  // namespace quire::cpu
