#include <immintrin.h>

#include "cpu/activation_sums.h"
#include "cpu/matmul_avx2_tile.h"
#include "cpu/packed_format.h"

namespace quire::cpu {
namespace {

QUIRE_ALWAYS_INLINE inline int sum_of_lanes(__m256i x) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

QUIRE_ALWAYS_INLINE inline int largest_lane(__m256i x) {
  __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xb1)));
}

}  // namespace

void multiply_avx2(const MatmulArgs& args) {
  switch (args.form) {
    case MatmulForm::integer:
      return multiply_avx2_integer(args);
    case MatmulForm::expanded:
      return multiply_avx2_expanded(args);
    case MatmulForm::plain:
      return multiply_avx2_plain(args);
    case MatmulForm::bfloat_pairs:
    case MatmulForm::bfloat_tiles:
      return multiply_scalar(args);  // no matrix is packed so for this instruction set
  }
}

void quantise_row_avx2(const float* values, int columns, ActivationGroup* to, int groups) {
  for (int group = 0; group < groups; ++group, columns -= kGroup) {
    __m256 x[4];
    __m256i largest_bits = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      const __m256i mask = lane_mask(columns - i * kLanes);
      x[i] = _mm256_maskload_ps(values + group * kGroup + i * kLanes, mask);
      // Magnitudes compare like the integers that hold them, with infinities and NaNs above the
      // rest.
      const __m256i bits =
          _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(0x7fffffff));
      largest_bits = _mm256_max_epi32(largest_bits, bits);
    }
    const int bits = largest_lane(largest_bits);
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof largest);
    const bool finite = bits < 0x7f800000;
    const bool zero = finite && largest < kSmallestActivation;
    const float inverse = !finite || zero ? 0.0f : 127.0f / largest;
    const __m256i kept = _mm256_set1_epi32(finite ? -1 : 0);
    __m256i codes[4];
    for (int i = 0; i < 4; ++i) {
      codes[i] =
          _mm256_and_si256(kept, _mm256_cvtps_epi32(_mm256_mul_ps(x[i], _mm256_set1_ps(inverse))));
    }
    ActivationGroup& result = to[group];
    // Packing works on 128-bit lanes: the last permutation puts the groups of four back in order.
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(codes[0], codes[1]),
                                              _mm256_packs_epi32(codes[2], codes[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(result.codes),
                        _mm256_permutevar8x32_epi32(packed, order));
    const int totals[2] = {sum_of_lanes(_mm256_add_epi32(codes[0], codes[1])),
                           sum_of_lanes(_mm256_add_epi32(codes[2], codes[3]))};
    set_sums(result, largest, finite, zero, totals);
  }
}

}  // namespace quire::cpu
