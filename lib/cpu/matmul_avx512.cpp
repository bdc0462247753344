#include <immintrin.h>

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

void quantise_row_avx512(const float* values, int columns, ActivationGroup* to, int groups) {
  for (int group = 0; group < groups; ++group, values += kGroup, columns -= kGroup) {
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
    ActivationGroup& result = to[group];
    const __m256i codes =
        _mm256_set_m128i(_mm512_cvtepi32_epi8(high_codes), _mm512_cvtepi32_epi8(low_codes));
    _mm256_store_si256(reinterpret_cast<__m256i*>(result.codes), codes);
    // Sums of four codes each, then of the sixteen of a half in every lane of that half.
    __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), codes);
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
    const int totals[2] = {_mm256_extract_epi32(sums, 0), _mm256_extract_epi32(sums, 4)};
    result.scale = !finite ? __builtin_nanf("") : zero ? 0.0f : largest / 127.0f;
    result.sum = result.scale * static_cast<float>(totals[0] + totals[1]);
    result.minus_total = -(totals[0] + totals[1]);
    for (int part = 0; part < 2; ++part) {
      result.part_sum[part] = result.scale * static_cast<float>(totals[part]);
      result.minus_part[part] = -totals[part];
    }
    result.unused = 0;
  }
}

}  // namespace quire::cpu
