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

QUIRE_ALWAYS_INLINE inline __m256i load_table(const std::uint8_t* table) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// The unsigned codes of one quad of columns, 8 rows: byte 4 r + c is row r, column 4 quad + c.
// `group` points to the half's 32 bytes of the group's first vector.
template <class Format, int quad>
QUIRE_ALWAYS_INLINE inline __m256i load_codes(const std::byte* group) {
  if constexpr (Format::kCodes == CodeForm::bytes) return load_bytes(group + kVectorBytes * quad);
  const __m256i pairs = load_bytes(group + kVectorBytes * (quad % 4));
  const __m256i low_bits = _mm256_set1_epi8(15);
  const __m256i codes = quad < 4 ? _mm256_and_si256(pairs, low_bits)
                                 : _mm256_and_si256(_mm256_srli_epi16(pairs, 4), low_bits);
  if constexpr (Format::kCodes == CodeForm::nibbles_1) {
    const __m256i bits = load_bytes(group + kVectorBytes * 4);
    const __m256i moved = quad <= 4 ? _mm256_slli_epi16(bits, quad <= 4 ? 4 - quad : 0)
                                    : _mm256_srli_epi16(bits, quad <= 4 ? 0 : quad - 4);
    return _mm256_or_si256(codes, _mm256_and_si256(moved, _mm256_set1_epi8(16)));
  }
  if constexpr (Format::kCodes == CodeForm::nibbles_2) {
    const __m256i bits = load_bytes(group + kVectorBytes * (4 + quad / 4));
    constexpr int place = 2 * (quad % 4);
    const __m256i moved = place <= 4 ? _mm256_slli_epi16(bits, place <= 4 ? 4 - place : 0)
                                     : _mm256_srli_epi16(bits, place <= 4 ? 0 : place - 4);
    return _mm256_or_si256(codes, _mm256_and_si256(moved, _mm256_set1_epi8(48)));
  }
  if constexpr (Format::kTable == CodeTable::iq4)
    return _mm256_shuffle_epi8(load_table(kIq4Codes), codes);
  if constexpr (Format::kTable == CodeTable::mxfp4)
    return _mm256_shuffle_epi8(load_table(kMxfp4Codes), codes);
  return codes;
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

struct Scales {
  __m256 scale;
  __m256 minimum;  // to be added; only of types that have minimums
};

QUIRE_ALWAYS_INLINE inline __m256 times(__m256 scale, __m256i factor) {
  return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(factor));
}

// Scales of 8 rows for one part of a group.
template <class Format, int part>
QUIRE_ALWAYS_INLINE inline Scales load_scales(const std::byte* scales, int group, int half) {
  const std::byte* halves = scales + 16 * half;
  const std::byte* factors = scales + 64 + 8 * half;
  const __m256 none = _mm256_setzero_ps();
  if constexpr (Format::kScales == ScaleForm::half) {
    return {load_halves(halves + 32 * group), none};
  } else if constexpr (Format::kScales == ScaleForm::bfloat) {
    return {load_bfloats(halves + 32 * group), none};
  } else if constexpr (Format::kScales == ScaleForm::half_min) {
    return {load_halves(halves + 32 * group), load_halves(halves + 64 + 32 * group)};
  } else if constexpr (Format::kScales == ScaleForm::super) {
    return {times(load_halves(halves), _mm256_cvtepi8_epi32(load_factors(factors + 16 * group))),
            none};
  } else if constexpr (Format::kScales == ScaleForm::super_16) {
    const __m128i factor = load_factors(factors + 16 * (2 * group + part));
    return {times(load_halves(halves), _mm256_cvtepi8_epi32(factor)), none};
  } else {
    const __m256 minimum = _mm256_xor_ps(load_halves(halves + 32), _mm256_set1_ps(-0.0f));
    if constexpr (Format::kScales == ScaleForm::super_min) {
      return {times(load_halves(halves), _mm256_cvtepu8_epi32(load_factors(factors + 16 * group))),
              times(minimum, _mm256_cvtepu8_epi32(load_factors(factors + 128 + 16 * group)))};
    } else {
      const __m256i both = _mm256_cvtepu8_epi32(load_factors(factors + 16 * (2 * group + part)));
      return {times(load_halves(halves), _mm256_and_si256(both, _mm256_set1_epi32(15))),
              times(minimum, _mm256_srli_epi32(both, 4))};
    }
  }
}

}  // namespace
}  // namespace quire::cpu
