#pragma once

#include <immintrin.h>

#include <cstdint>

namespace quire::cpu {

// Sixteen float lanes in two AVX2 registers; see lanes_scalar.h for what each function means.
struct Avx2Lanes {
  struct Float {
    __m256 low, high;
  };
  static constexpr int kTileRows = 6;
  static constexpr int kAccumulators = 4;
  static constexpr int kTileVectors = 2;

  static Float load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  static Float load(const float* from, int count) {
    return {_mm256_maskload_ps(from, mask(count)), _mm256_maskload_ps(from + 8, mask(count - 8))};
  }
  static void store(float* to, Float a) {
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps(to + 8, a.high);
  }
  static void store(float* to, Float a, int count) {
    _mm256_maskstore_ps(to, mask(count), a.low);
    _mm256_maskstore_ps(to + 8, mask(count - 8), a.high);
  }
  static Float set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Float add(Float a, Float b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Float subtract(Float a, Float b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static Float multiply(Float a, Float b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Float divide(Float a, Float b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static Float fma(Float a, Float b, Float c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Float maximum(Float a, Float b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Float minimum(Float a, Float b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static Float absolute(Float a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
  }
  static Float select_less(Float a, Float b, Float yes, Float no) {
    return {_mm256_blendv_ps(no.low, yes.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.high, yes.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
  }
  static Float select_range(int first, int last, Float yes, Float no) {
    return {select_half(first, last, yes.low, no.low),
            select_half(first - 8, last - 8, yes.high, no.high)};
  }
  static Float power_of_two(Float shifted) {
    return {power_half(shifted.low), power_half(shifted.high)};
  }
  static float sum(Float a) {
    const __m256 b = _mm256_add_ps(a.low, a.high);
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  static float largest(Float a) {
    const __m256 b = _mm256_max_ps(a.low, a.high);
    const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }
  static float first(Float a) { return _mm256_cvtss_f32(a.low); }

  static Float load_half(const std::uint16_t* from, int count) {
    const Halves bits = load_halves(from, count);
    return {_mm256_cvtph_ps(bits.low), _mm256_cvtph_ps(bits.high)};
  }
  static Float load_bfloat16(const std::uint16_t* from, int count) {
    const Halves bits = load_halves(from, count);
    return {expand_bfloat16(bits.low), expand_bfloat16(bits.high)};
  }
  static Float load_int8(const std::int8_t* from, int count) {
    __m128i bits;
    if (count == 16) {
      bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    } else {
      alignas(16) std::int8_t part[16] = {};
      __builtin_memcpy(part, from, static_cast<unsigned>(count));
      bits = _mm_load_si128(reinterpret_cast<const __m128i*>(part));
    }
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bits)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bits, 8)))};
  }
  static Float load_half(const std::uint16_t* from) { return load_half(from, 16); }
  static Float load_bfloat16(const std::uint16_t* from) { return load_bfloat16(from, 16); }
  static Float load_int8(const std::int8_t* from) { return load_int8(from, 16); }
  static void store_half(std::uint16_t* to, Float a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(a.low, kNearest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm256_cvtps_ph(a.high, kNearest));
  }
  static void store_bfloat16(std::uint16_t* to, Float a) {
    const __m256i packed = _mm256_packus_epi32(shrink_bfloat16(a.low), shrink_bfloat16(a.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  static void store_int8(std::int8_t* to, Float a) {
    const __m256i words = _mm256_packs_epi32(round_number(a.low), round_number(a.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
  }

 private:
  struct Halves {
    __m128i low, high;
  };

  static __m256i mask(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m256 select_half(int first, int last, __m256 yes, __m256 no) {
    const __m256i inside = _mm256_andnot_si256(mask(first), mask(last));
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(inside));
  }
  static __m256 power_half(__m256 shifted) {
    const __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000)));
  }
  static Halves load_halves(const std::uint16_t* from, int count) {
    const auto at = [](const std::uint16_t* p) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    };
    if (count == 16) return {at(from), at(from + 8)};
    if (count == 8) return {at(from), _mm_setzero_si128()};
    alignas(16) std::uint16_t part[16] = {};
    __builtin_memcpy(part, from, 2 * static_cast<unsigned>(count));
    return {at(part), at(part + 8)};
  }
  static __m256 expand_bfloat16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m256i shrink_bfloat16(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256 chosen =
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan);
    return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
  }
  static __m256i round_number(__m256 a) {  // NaN gives 0
    const __m256 number = _mm256_cmp_ps(a, a, _CMP_ORD_Q);
    return _mm256_and_si256(_mm256_cvtps_epi32(a), _mm256_castps_si256(number));
  }
};

}  // namespace quire::cpu
