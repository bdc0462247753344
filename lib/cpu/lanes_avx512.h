#pragma once

#include <immintrin.h>

#include <cstdint>

namespace quire::cpu {

// Sixteen float lanes in one AVX-512 register; see lanes_scalar.h for what each function means.
struct Avx512Lanes {
  using Float = __m512;
  static constexpr int kTileRows = 6;
  static constexpr int kAccumulators = 24;
  static constexpr int kTileVectors = 4;

  static __mmask16 mask(int count) { return static_cast<__mmask16>((1u << count) - 1); }

  static Float load(const float* from) { return _mm512_loadu_ps(from); }
  static Float load(const float* from, int count) {
    return _mm512_maskz_loadu_ps(mask(count), from);
  }
  static void store(float* to, Float a) { _mm512_storeu_ps(to, a); }
  static void store(float* to, Float a, int count) { _mm512_mask_storeu_ps(to, mask(count), a); }
  static Float set(float value) { return _mm512_set1_ps(value); }
  static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float subtract(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float divide(Float a, Float b) { return _mm512_div_ps(a, b); }
  static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static Float maximum(Float a, Float b) { return _mm512_max_ps(a, b); }
  static Float minimum(Float a, Float b) { return _mm512_min_ps(a, b); }
  static Float absolute(Float a) { return _mm512_abs_ps(a); }
  static Float select_less(Float a, Float b, Float yes, Float no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  static Float select_range(int first, int last, Float yes, Float no) {
    const unsigned below_last = last <= 0 ? 0 : last >= 16 ? 0xffffu : (1u << last) - 1;
    const unsigned below_first = first <= 0 ? 0 : first >= 16 ? 0xffffu : (1u << first) - 1;
    return _mm512_mask_blend_ps(static_cast<__mmask16>(below_last & ~below_first), no, yes);
  }
  static Float power_of_two(Float shifted) {
    const __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3f800000)));
  }
  static float sum(Float a) {
    const __m256 b = _mm256_add_ps(low(a), high(a));
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  static float largest(Float a) {
    const __m256 b = _mm256_max_ps(low(a), high(a));
    const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }
  static float first(Float a) { return _mm512_cvtss_f32(a); }

  static Float load_half(const std::uint16_t* from, int count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(count), from));
  }
  static Float load_bfloat16(const std::uint16_t* from, int count) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(count), from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  }
  static Float load_int8(const std::int8_t* from, int count) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask(count), from)));
  }
  static Float load_half(const std::uint16_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Float load_bfloat16(const std::uint16_t* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static Float load_int8(const std::int8_t* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bits));
  }
  static void store_half(std::uint16_t* to, Float a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void store_bfloat16(std::uint16_t* to, Float a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i result = _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(result));
  }
  static void store_int8(std::int8_t* to, Float a) {
    const __mmask16 number = _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
    const __m512i rounded = _mm512_maskz_cvtps_epi32(number, a);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(rounded));
  }

 private:
  static __m256 low(Float a) { return _mm512_castps512_ps256(a); }
  static __m256 high(Float a) { return _mm512_extractf32x8_ps(a, 1); }
};

}  // namespace quire::cpu
