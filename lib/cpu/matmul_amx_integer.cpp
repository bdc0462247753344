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
constexpr int kBlockGroups = 8;  // 256 columns
constexpr int kChunkTiles = 8;   // of 16 tokens, whose activations stay in the first-level cache

// Weights of 16 rows by 256 columns.
struct alignas(64) WeightBlock {
  std::int8_t codes[kBlockGroups][8 * kVectorBytes];  // as the vectors of CodeForm::bytes
  float scale[kBlockGroups][2][kRows];
  float minimum[kBlockGroups][2][kRows];  // to be added
};

// Activations of 16 tokens by 256 columns, in the order in which they are used. Tokens that are not
// there are zero.
struct alignas(64) ActivationTile {
  std::int8_t codes[kBlockGroups][kTileRows][kGroup];
  float scale[kBlockGroups][kTileRows];
  float sum[kBlockGroups][2][kTileRows];  // of each part, or of the whole group
};

// Where the sums of a panel are.
struct PanelOutput {
  float* first;  // of the first token of a tile
  std::int64_t stride;
  __mmask16 rows;
  const float* bias;  // null: none
  bool begins;        // sums begin at zero and not with the output
};

template <class Format>
void load_tile(const ActivationGroup* from, std::int64_t stride, int groups, int tokens,
               ActivationTile& to) {
  for (int t = 0; t < kTileRows; ++t, from += stride) {
    for (int group = 0; group < groups; ++group) {
      const bool exists = t < tokens;
      to.scale[group][t] = exists ? from[group].scale : 0.0f;
      if constexpr (PackedSizes<Format>::kMinimum) {
        constexpr bool kHalves = PackedSizes<Format>::kParts == 2;
        to.sum[group][0][t] = !exists ? 0.0f : kHalves ? from[group].part_sum[0] : from[group].sum;
        if constexpr (kHalves) to.sum[group][1][t] = exists ? from[group].part_sum[1] : 0.0f;
      }
      if (!exists) continue;
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.codes[group][t]),
                         _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from[group].codes)));
    }
  }
}

template <class Format>
void expand(const std::byte* panel, int first_group, int groups, WeightBlock& to) {
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

// The products of one part of a group. Tiles 0 and 1 take turns as sums; 2 and 4 have activations,
// 3 and 5 weights.
template <int turn>
QUIRE_ALWAYS_INLINE inline void multiply_part(const std::int8_t* activations,
                                              const std::int8_t* weights, std::int32_t* to) {
  if constexpr (turn == 0) {
    _tile_zero(0);
    _tile_loadd(2, activations, kGroup);
    _tile_loadd(3, weights, kVectorBytes);
    _tile_dpbssd(0, 2, 3);
    _tile_stored(0, to, kVectorBytes);
  } else {
    _tile_zero(1);
    _tile_loadd(4, activations, kGroup);
    _tile_loadd(5, weights, kVectorBytes);
    _tile_dpbssd(1, 4, 5);
    _tile_stored(1, to, kVectorBytes);
  }
}

// Sums of one panel for a tile's first `tokens` tokens, of which `count` are stored. The products
// of a step are made two steps before they are scaled and added, so that tiles and vectors work
// side by side.
template <class Format, int tokens>
void add_block(const WeightBlock& weights, const ActivationTile& activations, int groups, int count,
               const PanelOutput& output) {
  using Sizes = PackedSizes<Format>;
  constexpr int kParts = Sizes::kParts;
  constexpr int kAhead = 2, kBuffers = 4;
  alignas(64) std::int32_t dots[kBuffers][tokens * kRows];
  __m512 sums[tokens];
  unroll<tokens>([&](auto t) LAMBDA {
    sums[t] = output.begins || t >= count
                  ? _mm512_setzero_ps()
                  : _mm512_maskz_loadu_ps(output.rows, output.first + t * output.stride);
  });
  auto multiply = [&](int step, auto turn) LAMBDA {
    const int group = step / kParts, part = step % kParts;
    multiply_part<decltype(turn)::kValue>(&activations.codes[group][0][part * 16],
                                          weights.codes[group] + part * 4 * kVectorBytes,
                                          dots[step % kBuffers]);
  };
  auto add = [&](int step) LAMBDA {
    const int group = step / kParts, part = step % kParts;
    const __m512 scales = _mm512_load_ps(weights.scale[group][part]);
    const float* activation_scales = activations.scale[group];
    const std::int32_t* from = dots[step % kBuffers];
    unroll<tokens>([&](auto t) LAMBDA {
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(activation_scales[t]));
      sums[t] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(from + t * kRows)), scale, sums[t]);
    });
    if constexpr (Sizes::kMinimum) {
      const __m512 minimum = _mm512_load_ps(weights.minimum[group][part]);
      const float* activation_sums = activations.sum[group][part];
      unroll<tokens>([&](auto t) LAMBDA {
        sums[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(activation_sums[t]), sums[t]);
      });
    }
  };
  const int steps = groups * kParts;  // even
  multiply(0, Index<0>());
  multiply(1, Index<1>());
  for (int step = 0; step < steps; step += 2) {
    if (step + kAhead < steps) multiply(step + kAhead, Index<0>());
    add(step);
    if (step + kAhead < steps) multiply(step + 1 + kAhead, Index<1>());
    add(step + 1);
  }
  const __m512 bias =
      output.bias ? _mm512_maskz_loadu_ps(output.rows, output.bias) : _mm512_setzero_ps();
  unroll<tokens>([&](auto t) LAMBDA {
    if (t < count) {
      _mm512_mask_storeu_ps(output.first + t * output.stride, output.rows,
                            output.bias ? _mm512_add_ps(sums[t], bias) : sums[t]);
    }
  });
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

PanelOutput output_of(const MatmulArgs& args, std::int64_t panel) {
  const std::int64_t row = panel * kRows, left = args.rows - row;
  return {args.output + row, args.output_stride,
          static_cast<__mmask16>(left >= kRows ? 0xffff : (1 << left) - 1),
          args.bias ? args.bias + row : nullptr, !args.resume};
}

// Adds groups [first_group, first_group + groups) to the sums of up to kChunkTiles tiles of tokens.
// `args` says whether sums begin and end here.
template <class Format>
void multiply_chunk(const MatmulArgs& args, int first_group, int groups, int first_token,
                    int tokens) {
  ActivationTile tiles[kChunkTiles];
  WeightBlock weights;
  const int whole = tokens / kTileRows, rest = tokens % kTileRows;
  for (int i = 0; i * kTileRows < tokens; ++i) {
    const int first = first_token + i * kTileRows;
    load_tile<Format>(args.groups + first * args.group_stride + first_group, args.group_stride,
                      groups, i < whole ? kTileRows : rest, tiles[i]);
  }
  configure_for<Format>(whole > 0 ? kTileRows : rest);
  for (std::int64_t panel = args.first_panel; panel < args.last_panel; ++panel) {
    expand<Format>(args.panels + static_cast<std::size_t>(panel) * args.panel_bytes, first_group,
                   groups, weights);
    finish_stores();
    PanelOutput output = output_of(args, panel);
    output.first += first_token * args.output_stride;
    for (int i = 0; i < whole; ++i) {
      add_block<Format, kTileRows>(weights, tiles[i], groups, kTileRows, output);
      output.first += kTileRows * args.output_stride;
    }
    if (rest == 0) continue;
    if (whole > 0) configure_for<Format>(rest);
    if (rest > kTileRows / 2) {
      add_block<Format, kTileRows>(weights, tiles[whole], groups, rest, output);
    } else {
      add_block<Format, kTileRows / 2>(weights, tiles[whole], groups, rest, output);
    }
    if (whole > 0) configure_for<Format>(kTileRows);
  }
}

template <class Format>
void multiply_all(const MatmulArgs& args) {
  using Sizes = PackedSizes<Format>;
  constexpr int kChunk = kChunkTiles * kTileRows;
  const int groups = (args.columns + Sizes::kColumns - 1) / Sizes::kColumns * Sizes::kGroups;
  for (int group = 0; group < groups; group += kBlockGroups) {
    MatmulArgs block = args;
    const bool last = group + kBlockGroups >= groups;
    if (group > 0) block.resume = true;
    if (!last) block.bias = nullptr;
    for (int first = 0; first < args.tokens; first += kChunk) {
      const int left = args.tokens - first;
      multiply_chunk<Format>(block, group, last ? groups - group : kBlockGroups, first,
                             left < kChunk ? left : kChunk);
    }
  }
  _tile_release();
}

}  // namespace

void multiply_amx_integer(const MatmulArgs& args) {
  visit_packed_format(args.type, [&]<class Format>() { multiply_all<Format>(args); });
}

}  // namespace quire::cpu
