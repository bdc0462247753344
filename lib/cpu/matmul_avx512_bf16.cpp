#include "cpu/matmul_avx512_tile.h"

// AVX-512 BF16: vdpbf16ps multiplies pairs of columns.

namespace quire::cpu {
namespace {

struct PairProduct : BfloatActivations, PlainWeights<2> {
  using Repeated = PairProduct;
  static constexpr int kTokens = 14;  // with two panels 31 registers
  static constexpr int kStreamTokens = 2;

  template <int panels, int tokens>
  QUIRE_ALWAYS_INLINE static void add(const MatmulArgs& args, const Panels& from, int first_token,
                                      Sums<panels, tokens>& sums) {
    const std::uint16_t* values =
        args.bfloats + first_token * args.bfloat_stride + 32 * args.first_bfloat_block;
    const std::int64_t stride = args.bfloat_stride;
    const std::int64_t pairs = (args.columns + 31) / 32 * 16;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      __m512bh weights[panels];
      unroll<panels>([&](auto p) LAMBDA {
        if (from.ahead[p]) fetch<panels, 1>(from.ahead[p] + 64 * pair);
        weights[p] = (__m512bh)_mm512_loadu_si512(from.at[p] + 64 * pair);
      });
      unroll<tokens>([&](auto t) LAMBDA {
        std::int32_t two;
        __builtin_memcpy(&two, values + t * stride + 2 * pair, sizeof two);
        const __m512bh others = (__m512bh)_mm512_set1_epi32(two);
        unroll<panels>(
            [&](auto p) LAMBDA { sums[p][t] = _mm512_dpbf16_ps(sums[p][t], weights[p], others); });
      });
    }
  }
};

}  // namespace

void multiply_avx512_bf16(const MatmulArgs& args) {
  if (args.form != MatmulForm::bfloat_pairs) return multiply_avx512(args);
  multiply_all<PairProduct>(args);
}

void round_row_avx512_bf16(const float* values, int columns, std::uint16_t* to, int blocks,
                           std::int64_t stride) {
  for (int half = 0; half < 2 * blocks; ++half) {
    const int left = columns - half * kRows;
    const unsigned mask = left >= kRows ? 0xffffu : left > 0 ? (1u << left) - 1 : 0u;
    const __m512 x = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), values + half * kRows);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + half / 2 * stride + half % 2 * kRows),
                        (__m256i)_mm512_cvtneps_pbh(x));
  }
}

}  // namespace quire::cpu
