#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/activation_sums.h"
#include "cpu/matmul.h"
#include "cpu/matmul_kernels.h"
#include "cpu/matmul_scalar_bfloat.h"
#include "cpu/pack_expand.h"
#include "tensor/blocks.h"

// The plain reference: it says what every instruction set computes, operation by operation.

namespace quire::cpu {
namespace {

constexpr int kTokens = 128;  // that share one expansion of the weights

// Sums of a panel for up to kTokens tokens.
struct PanelSums {
  float value[kTokens][kPanelRows];
};

template <int columns>
void add_part(const ExpandedGroup& weights, int part, const std::int16_t* activations, float scale,
              float activation_sum, float* sums) {
  std::int32_t dots[kPanelRows];
  for (int row = 0; row < kPanelRows; ++row) {
    const std::int16_t* codes = weights.codes[row] + part * columns;
    dots[row] = 0;
    for (int i = 0; i < columns; ++i) dots[row] += codes[i] * activations[i];
  }
  for (int row = 0; row < kPanelRows; ++row) {
    sums[row] =
        std::fma(static_cast<float>(dots[row]), weights.scale[part][row] * scale, sums[row]);
  }
  if (!weights.minimums) return;
  for (int row = 0; row < kPanelRows; ++row) {
    sums[row] = std::fma(weights.minimum[part][row], activation_sum, sums[row]);
  }
}

// sum += weight scale * activation scale * (integer dot product), then + minimum * activation sum.
void add_group(const ExpandedGroup& weights, const ActivationGroup& activations, float* sums) {
  std::int16_t codes[kGroup];  // as wide as those of the weights
  std::copy_n(activations.codes, kGroup, codes);
  if (weights.parts == 1) {
    add_part<kGroup>(weights, 0, codes, activations.scale, activations.sum, sums);
    return;
  }
  for (int part = 0; part < 2; ++part) {
    add_part<kGroup / 2>(weights, part, codes + part * kGroup / 2, activations.scale,
                         activations.part_sum[part], sums);
  }
}

void add_integer(const MatmulArgs& args, const std::byte* panel, int first_token, int tokens,
                 PanelSums& sums) {
  const RecordShape shape = record_shape(args.type);
  const int records = (args.columns + shape.columns - 1) / shape.columns;
  ExpandedGroup weights;
  for (int record = 0; record < records; ++record) {
    for (int group = 0; group < shape.groups; ++group) {
      expand_group(args.type,
                   panel + static_cast<std::size_t>(record) * static_cast<std::size_t>(shape.bytes),
                   group, weights);
      for (int t = 0; t < tokens; ++t) {
        const ActivationGroup* row = args.groups + (first_token + t) * args.group_stride;
        add_group(weights, row[record * shape.groups + group], sums.value[t]);
      }
    }
  }
}

// sum = fma(weight, activation, sum), columns ascending.
void add_columns(const float* weights, int columns, const MatmulArgs& args, int first_column,
                 int first_token, int tokens, PanelSums& sums) {
  for (int t = 0; t < tokens; ++t) {
    const float* values = args.values + (first_token + t) * args.value_stride + first_column;
    for (int column = 0; column < columns; ++column) {
      for (int row = 0; row < kPanelRows; ++row) {
        sums.value[t][row] =
            std::fma(weights[column * kPanelRows + row], values[column], sums.value[t][row]);
      }
    }
  }
}

void add_expanded(const MatmulArgs& args, const std::byte* panel, int first_token, int tokens,
                  PanelSums& sums) {
  const RecordShape shape = record_shape(args.type);
  ExpandedGroup group;
  float weights[kGroup * kPanelRows];
  for (int first = 0; first < args.columns; first += kGroup) {
    const std::byte* record = panel + static_cast<std::size_t>(first / shape.columns) *
                                          static_cast<std::size_t>(shape.bytes);
    expand_group(args.type, record, first % shape.columns / kGroup, group);
    for (int column = 0; column < kGroup; ++column) {
      for (int row = 0; row < kPanelRows; ++row) {
        weights[column * kPanelRows + row] = expanded_weight(group, row, column);
      }
    }
    add_columns(weights, kGroup, args, first, first_token, tokens, sums);
  }
}

void add_plain(const MatmulArgs& args, const std::byte* panel, int first_token, int tokens,
               PanelSums& sums) {
  const std::size_t size = static_cast<std::size_t>(info(args.type).block_bytes);
  float weights[kGroup * kPanelRows];
  for (int first = 0; first < args.columns; first += kGroup) {
    const int columns = std::min(kGroup, args.columns - first);
    dequantise(args.type, panel + static_cast<std::size_t>(first) * kPanelRows * size,
               columns * kPanelRows, weights);
    add_columns(weights, columns, args, first, first_token, tokens, sums);
  }
}

}  // namespace

void multiply_scalar(const MatmulArgs& args) {
  PanelSums sums;
  for (std::int64_t p = args.first_panel; p < args.last_panel; ++p) {
    const std::byte* panel = args.panels + static_cast<std::size_t>(p) * args.panel_bytes;
    const std::int64_t first_row = p * kPanelRows;
    const int rows = static_cast<int>(std::min<std::int64_t>(kPanelRows, args.rows - first_row));
    for (int first = 0; first < args.tokens; first += kTokens) {
      const int tokens = std::min(kTokens, args.tokens - first);
      std::memset(&sums, 0, sizeof sums);
      for (int t = 0; args.resume && t < tokens; ++t) {
        std::copy_n(args.output + (first + t) * args.output_stride + first_row, rows,
                    sums.value[t]);
      }
      switch (args.form) {
        case MatmulForm::integer:
          add_integer(args, panel, first, tokens, sums);
          break;
        case MatmulForm::expanded:
          add_expanded(args, panel, first, tokens, sums);
          break;
        case MatmulForm::plain:
          add_plain(args, panel, first, tokens, sums);
          break;
        case MatmulForm::bfloat_pairs:
        case MatmulForm::bfloat_tiles:
          for (int t = 0; t < tokens; ++t) {
            add_bfloat_scalar(args, panel, first + t, sums.value[t]);
          }
          break;
      }
      for (int t = 0; t < tokens; ++t) {
        float* output = args.output + (first + t) * args.output_stride + first_row;
        for (int row = 0; row < rows; ++row) {
          output[row] =
              args.bias ? sums.value[t][row] + args.bias[first_row + row] : sums.value[t][row];
        }
      }
    }
  }
}

void quantise_row_scalar(const float* values, int columns, ActivationGroup* to, int groups) {
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, ties to even
  for (int group = 0; group < groups; ++group) {
    float x[kGroup] = {};
    const int count = std::clamp(columns - group * kGroup, 0, kGroup);
    std::copy_n(values + (count > 0 ? group * kGroup : 0), count, x);
    // Magnitudes compare like the integers that hold them, with infinities and NaNs above the rest.
    std::uint32_t largest_bits = 0;
    for (const float value : x) {
      largest_bits = std::max(largest_bits, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
    }
    const float largest = std::bit_cast<float>(largest_bits);
    const bool finite = largest_bits < 0x7f800000u;
    const bool zero = finite && largest < kSmallestActivation;
    ActivationGroup& result = to[group];
    const float inverse = !finite || zero ? 0.0f : 127.0f / largest;
    int totals[2] = {};
    for (int i = 0; i < kGroup; ++i) {
      const float scaled = finite ? x[i] * inverse : 0.0f;
      const std::int32_t code = static_cast<std::int32_t>(
          std::bit_cast<std::uint32_t>(scaled + kRound) - std::bit_cast<std::uint32_t>(kRound));
      result.codes[i] = static_cast<std::int8_t>(code);
      totals[i / 16] += code;
    }
    set_sums(result, largest, finite, zero, totals);
  }
}

}  // namespace quire::cpu
