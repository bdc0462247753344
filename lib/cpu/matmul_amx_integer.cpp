#include <immintrin.h>

#include "cpu/matmul_amx_tile.h"
#include "cpu/matmul_avx512_weights.h"
#include "cpu/matmul_kernels.h"

// 8-bit activations on AMX. Weights become signed numbers in a block that all tokens share; tdpbssd
// multiplies one part of a group at a time, and its sums are scaled and added as everywhere else.

namespace quire::cpu {
namespace {

#define LAMBDA QUIRE_ALWAYS_INLINE

constexpr int kRows = 16;
constexpr int kBlockGroups = 8;
constexpr int kBlockPanels = 4;  // that share the activations in the first-level cache

// 16 rows by 256 columns.
struct alignas(64) Block {
  std::int8_t codes[kBlockGroups][8 * kVectorBytes];  // as the vectors of CodeForm::bytes
  float scale[kBlockGroups][2][kRows];
  float minimum[kBlockGroups][2][kRows];  // to be added
};

struct Panels {
  Block block[kBlockPanels];
  float* output[kBlockPanels];  // of token 0
  const float* bias[kBlockPanels];
  __mmask16 rows[kBlockPanels];
  int count;
};

// How the groups of a block are summed.
struct Range {
  const ActivationGroup* activations;  // of token 0 and the block's first group
  std::int64_t stride;                 // from token to token
  std::int64_t output_stride;
  int groups;
  bool begins;  // sums begin at zero and not with the output
};

template <class Format>
void expand(const std::byte* panel, int first_group, int groups, Block& to) {
  using Sizes = PackedSizes<Format>;
  for (int i = 0; i < groups; ++i) {
    const int group = (first_group + i) % Sizes::kGroups;
    const std::byte* record =
        panel + std::int64_t{(first_group + i) / Sizes::kGroups} * Sizes::kRecordBytes;
    unroll<8>([&](auto quad) LAMBDA {
      const __m512i codes =
          load_codes<Format, decltype(quad)::kValue>(record + group * Sizes::kGroupBytes);
      _mm512_store_si512(
          to.codes[i] + kVectorBytes * quad,
          _mm512_sub_epi8(codes, _mm512_set1_epi8(static_cast<char>(Sizes::kOffset))));
    });
    unroll<Sizes::kParts>([&](auto part) LAMBDA {
      constexpr int kPart = decltype(part)::kValue;
      const std::byte* scales = record + Sizes::kCodeBytes;
      _mm512_store_ps(to.scale[i][part], load_scale<Format, kPart>(scales, group));
      if constexpr (Sizes::kMinimum) {
        const __m512 minimum = load_minimum<Format, kPart>(scales, group);
        _mm512_store_ps(to.minimum[i][part], Sizes::kSubtracts
                                                 ? _mm512_sub_ps(_mm512_set1_ps(-0.0f), minimum)
                                                 : minimum);
      }
    });
  }
}

// Tiles 0 and 1 take turns as sums; 2 and 4 have activations, 3 and 5 weights.
template <int turn>
QUIRE_ALWAYS_INLINE inline void multiply_part(const ActivationGroup* activations, int part_offset,
                                              std::int64_t stride, const std::int8_t* codes,
                                              std::int32_t* to) {
  const std::int64_t row_stride = stride * static_cast<std::int64_t>(sizeof(ActivationGroup));
  if constexpr (turn == 0) {
    _tile_zero(0);
    _tile_loadd(2, activations->codes + part_offset, row_stride);
    _tile_loadd(3, codes, kVectorBytes);
    _tile_dpbssd(0, 2, 3);
    _tile_stored(0, to, kVectorBytes);
  } else {
    _tile_zero(1);
    _tile_loadd(4, activations->codes + part_offset, row_stride);
    _tile_loadd(5, codes, kVectorBytes);
    _tile_dpbssd(1, 4, 5);
    _tile_stored(1, to, kVectorBytes);
  }
}

// Sums of one panel for up to `tokens` tokens, `count` of them real: token t is offsets[t] groups
// after the first.
template <class Format, int tokens>
void add_block(const Range& range, const Block& block, const ActivationGroup* activations,
               const std::int64_t* offsets, int count, float* output, __mmask16 rows,
               const float* bias) {
  using Sizes = PackedSizes<Format>;
  constexpr int kParts = Sizes::kParts;
  alignas(64) std::int32_t dots[2][tokens * kRows];
  __m512 sums[tokens];
  unroll<tokens>([&](auto t) LAMBDA {
    sums[t] = range.begins || t >= count
                  ? _mm512_setzero_ps()
                  : _mm512_maskz_loadu_ps(rows, output + t * range.output_stride);
  });
  auto multiply = [&](int step, auto turn) LAMBDA {
    const int group = step / kParts, part = step % kParts;
    multiply_part<decltype(turn)::kValue>(activations + group, part * 16, range.stride,
                                          block.codes[group] + part * 4 * kVectorBytes,
                                          dots[decltype(turn)::kValue]);
  };
  auto add = [&](int step, auto turn) LAMBDA {
    const int group = step / kParts, part = step % kParts;
    const __m512 scales = _mm512_load_ps(block.scale[group][part]);
    const std::int32_t* from = dots[decltype(turn)::kValue];
    unroll<tokens>([&](auto t) LAMBDA {
      const ActivationGroup& a = activations[group + offsets[t]];
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(a.scale));
      sums[t] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(from + t * kRows)), scale, sums[t]);
    });
    if constexpr (Sizes::kMinimum) {
      const __m512 minimum = _mm512_load_ps(block.minimum[group][part]);
      unroll<tokens>([&](auto t) LAMBDA {
        const ActivationGroup& a = activations[group + offsets[t]];
        const float sum = kParts == 2 ? a.part_sum[part] : a.sum;
        sums[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(sum), sums[t]);
      });
    }
  };
  // The tiles of a step are computed while the sums of the step before are scaled. The number of
  // steps is even.
  const int steps = range.groups * kParts;
  multiply(0, Index<0>());
  for (int step = 0; step < steps; step += 2) {
    multiply(step + 1, Index<1>());
    add(step, Index<0>());
    if (step + 2 < steps) multiply(step + 2, Index<0>());
    add(step + 1, Index<1>());
  }
  const __m512 added = bias ? _mm512_maskz_loadu_ps(rows, bias) : _mm512_setzero_ps();
  unroll<tokens>([&](auto t) LAMBDA {
    if (t < count) {
      _mm512_mask_storeu_ps(output + t * range.output_stride, rows,
                            bias ? _mm512_add_ps(sums[t], added) : sums[t]);
    }
  });
}

// All panels for tokens [first, first + count).
template <class Format, int tokens>
void add_tokens(const Range& range, const Panels& panels, int first, int count) {
  std::int64_t offsets[tokens];
  for (int t = 0; t < tokens; ++t) offsets[t] = range.stride * (t < count ? t : count - 1);
  for (int p = 0; p < panels.count; ++p) {
    add_block<Format, tokens>(range, panels.block[p], range.activations + first * range.stride,
                              offsets, count, panels.output[p] + first * range.output_stride,
                              panels.rows[p], panels.bias[p]);
  }
}

template <class Format>
void configure_for(int tokens) {
  constexpr int kParts = PackedSizes<Format>::kParts;
  TileShapes shapes;
  for (int turn = 0; turn < 2; ++turn) {
    shapes.set(turn, tokens, kVectorBytes);
    shapes.set(2 + 2 * turn, tokens, kGroup / kParts);
    shapes.set(3 + 2 * turn, 8 / kParts, kVectorBytes);
  }
  configure(shapes);
}

template <class Format>
void multiply_block(const Range& range, const Panels& panels, int tokens) {
  const int whole = tokens / kTileRows, rest = tokens % kTileRows;
  if (whole > 0) configure_for<Format>(kTileRows);
  for (int i = 0; i < whole; ++i) {
    add_tokens<Format, kTileRows>(range, panels, i * kTileRows, kTileRows);
  }
  if (rest == 0) return;
  configure_for<Format>(rest);
  if (rest > kTileRows / 2) {
    add_tokens<Format, kTileRows>(range, panels, whole * kTileRows, rest);
  } else {
    add_tokens<Format, kTileRows / 2>(range, panels, whole * kTileRows, rest);
  }
}

template <class Format>
void multiply_all(const MatmulArgs& args) {
  using Sizes = PackedSizes<Format>;
  const int groups = (args.columns + Sizes::kColumns - 1) / Sizes::kColumns * Sizes::kGroups;
  Panels panels;
  for (std::int64_t first = args.first_panel; first < args.last_panel; first += kBlockPanels) {
    const std::int64_t left = args.last_panel - first;
    panels.count = static_cast<int>(left < kBlockPanels ? left : kBlockPanels);
    for (int group = 0; group < groups; group += kBlockGroups) {
      const bool last = group + kBlockGroups >= groups;
      const Range range = {args.groups + group, args.group_stride, args.output_stride,
                           last ? groups - group : kBlockGroups, group == 0 && !args.resume};
      for (int p = 0; p < panels.count; ++p) {
        const std::int64_t row = (first + p) * kRows;
        expand<Format>(args.panels + static_cast<std::size_t>(first + p) * args.panel_bytes, group,
                       range.groups, panels.block[p]);
        panels.output[p] = args.output + row;
        panels.bias[p] = args.bias && last ? args.bias + row : nullptr;
        panels.rows[p] = static_cast<__mmask16>(
            args.rows - row >= kRows ? 0xffff : (1 << (args.rows - row)) - 1);
      }
      multiply_block<Format>(range, panels, args.tokens);
    }
  }
  _tile_release();
}

}  // namespace

void multiply_amx_integer(const MatmulArgs& args) {
  visit_packed_format(args.type, [&]<class Format>() { multiply_all<Format>(args); });
}

}  // namespace quire::cpu
