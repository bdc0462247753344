#include <immintrin.h>

#include "cpu/activation_sums.h"
#include "cpu/matmul_avx512_tile.h"
#include "cpu/packed_format.h"

namespace quire::cpu {

void multiply_avx512(const MatmulArgs& args) {
  switch (args.form) {
    case MatmulForm::integer:
      return multiply_avx512_integer(args);
    case MatmulForm::expanded:
      return multiply_avx512_expanded(args);
    case MatmulForm::plain:
      return multiply_avx512_plain(args);
    case MatmulForm::bfloat_pairs:
    case MatmulForm::bfloat_tiles:
      return multiply_scalar(args);  // no matrix is packed so for this instruction set
  }
}

namespace {

// Any group, of which `columns` exist.
void quantise_one(const float* values, int columns, ActivationGroup& result) {
  const int count = columns < 0 ? 0 : columns > kGroup ? kGroup : columns;
  const unsigned mask = count == kGroup ? ~0u : (1u << count) - 1;
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask & 0xffff), values);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), values + 16);
  // Magnitudes compare like the integers that hold them, with infinities and NaNs above the rest.
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const int largest_bits = _mm512_reduce_max_epi32(
      _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                       _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof largest);
  const bool finite = largest_bits < 0x7f800000;
  const bool zero = finite && largest < kSmallestActivation;
  const float inverse = !finite || zero ? 0.0f : 127.0f / largest;
  const __mmask16 kept = finite ? 0xffff : 0;
  const __m512i low_codes =
      _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(low, _mm512_set1_ps(inverse)));
  const __m512i high_codes =
      _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(high, _mm512_set1_ps(inverse)));
  const __m256i codes =
      _mm256_set_m128i(_mm512_cvtepi32_epi8(high_codes), _mm512_cvtepi32_epi8(low_codes));
  _mm256_store_si256(reinterpret_cast<__m256i*>(result.codes), codes);
  // Sums of four codes each, then of the sixteen of a half in every lane of that half.
  __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), codes);
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
  const int totals[2] = {_mm256_extract_epi32(sums, 0), _mm256_extract_epi32(sums, 4)};
  set_sums(result, largest, finite, zero, totals);
}

constexpr int kAtOnce = 4;  // groups, whose scales and sums are lanes of one vector

// Lane i: the largest of the lanes of x[i].
QUIRE_ALWAYS_INLINE inline __m128i largest_of(const __m512i (&x)[kAtOnce]) {
  const __m512i first =
      _mm512_max_epi32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
  const __m512i second =
      _mm512_max_epi32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
  const __m512i all =
      _mm512_max_epi32(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
  const __m256i half =
      _mm256_max_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// The codes of the columns of two groups, in order, from those of their halves.
QUIRE_ALWAYS_INLINE inline __m512i pack_codes(const __m512i (&low)[2], const __m512i (&high)[2]) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i words[2] = {_mm512_packs_epi32(low[0], high[0]),
                            _mm512_packs_epi32(low[1], high[1])};
  return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(words[0], words[1]));
}

// Sums of four codes each -> of the first halves of the groups, and of the second ones.
QUIRE_ALWAYS_INLINE inline __m256i half_sums(const __m512i (&sums)[2]) {
  const __m512i two = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                       _mm512_unpackhi_epi32(sums[0], sums[1]));
  const __m512i four = _mm512_add_epi32(two, _mm512_shuffle_epi32(two, _MM_PERM_BADC));
  const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 4, 12, 5, 13, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, four));
}

// Four groups whose activations all exist. False, and nothing done, unless they are all finite and
// each group has one that counts.
QUIRE_ALWAYS_INLINE inline bool quantise_four(const float* values, ActivationGroup* to) {
  __m512i magnitudes[kAtOnce];
  unroll<kAtOnce>([&](auto g) LAMBDA {
    // Magnitudes compare like the integers that hold them, with infinities and NaNs above the rest.
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i low = _mm512_loadu_si512(values + g * kGroup);
    const __m512i high = _mm512_loadu_si512(values + g * kGroup + 16);
    magnitudes[g] =
        _mm512_max_epi32(_mm512_and_si512(low, magnitude), _mm512_and_si512(high, magnitude));
  });
  const __m128i largest_bits = largest_of(magnitudes);
  const __m128 largest = _mm_castsi128_ps(largest_bits);
  const __m128i usual =
      _mm_and_si128(_mm_cmplt_epi32(largest_bits, _mm_set1_epi32(0x7f800000)),
                    _mm_castps_si128(_mm_cmpge_ps(largest, _mm_set1_ps(kSmallestActivation))));
  if (_mm_movemask_ps(_mm_castsi128_ps(usual)) != 15) return false;
  const __m128 scale = _mm_div_ps(largest, _mm_set1_ps(127.0f));
  const __m512 inverse = _mm512_broadcast_f32x4(_mm_div_ps(_mm_set1_ps(127.0f), largest));
  __m512i sums[2];
  unroll<2>([&](auto pair) LAMBDA {
    __m512i low[2], high[2];
    unroll<2>([&](auto i) LAMBDA {
      constexpr int g = 2 * decltype(pair)::kValue + decltype(i)::kValue;
      const __m512 factor = _mm512_permute_ps(inverse, g * 0x55);
      const float* from = values + g * kGroup;
      low[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from), factor));
      high[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from + 16), factor));
    });
    const __m512i codes = pack_codes(low, high);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to[2 * pair].codes),
                       _mm512_castsi512_si256(codes));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to[2 * pair + 1].codes),
                       _mm512_extracti64x4_epi64(codes, 1));
    sums[pair] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), codes);
  });
  const __m256i halves = half_sums(sums);
  const __m128i part[2] = {_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)};
  const __m128i total = _mm_add_epi32(part[0], part[1]);
  const __m128i none = _mm_setzero_si128();
  __m128 floats[4] = {scale, _mm_mul_ps(scale, _mm_cvtepi32_ps(total)),
                      _mm_mul_ps(scale, _mm_cvtepi32_ps(part[0])),
                      _mm_mul_ps(scale, _mm_cvtepi32_ps(part[1]))};
  __m128 integers[4] = {_mm_castsi128_ps(_mm_sub_epi32(none, total)),
                        _mm_castsi128_ps(_mm_sub_epi32(none, part[0])),
                        _mm_castsi128_ps(_mm_sub_epi32(none, part[1])), _mm_setzero_ps()};
  _MM_TRANSPOSE4_PS(floats[0], floats[1], floats[2], floats[3]);
  _MM_TRANSPOSE4_PS(integers[0], integers[1], integers[2], integers[3]);
  unroll<kAtOnce>([&](auto g) LAMBDA {
    _mm_store_ps(&to[g].scale, floats[g]);  // and the sums
    _mm_store_ps(reinterpret_cast<float*>(&to[g].minus_total), integers[g]);
  });
  return true;
}

}  // namespace

void quantise_row_avx512(const float* values, int columns, ActivationGroup* to, int groups) {
  int group = 0;
  for (; (group + kAtOnce) * kGroup <= columns; group += kAtOnce) {
    const float* from = values + group * kGroup;
    if (quantise_four(from, to + group)) continue;
    for (int g = 0; g < kAtOnce; ++g) quantise_one(from + g * kGroup, kGroup, to[group + g]);
  }
  for (; group < groups; ++group) {
    quantise_one(values + group * kGroup, columns - group * kGroup, to[group]);
  }
}

}  // namespace quire::cpu
