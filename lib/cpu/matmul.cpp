#include "cpu/matmul.h"

#include <algorithm>

#include "base/checked.h"
#include "cpu/matmul_kernels.h"
#include "cpu/pack.h"
#include "cpu/packed_format.h"

namespace quire::cpu {
namespace {

constexpr int kGroupMultiple = 2;     // groups of a row are padded to whole records of two
constexpr int kInPlaceColumns = 512;  // packed at once by a product of stored weights

int padded_groups(int columns) {
  return round_up(ceil_div(columns, kGroup), kGroupMultiple);
}

// Groups from one row to the next: an odd number, so that the rows of a tile do not meet in the
// same sets of a cache.
int group_stride(int columns) {
  return padded_groups(columns) + 1;
}

ActivationGroup* groups_of(const Activations& activations) {
  return reinterpret_cast<ActivationGroup*>(activations.storage);
}

// Behind the groups of all rows.
std::uint16_t* bfloats_of(const Activations& activations) {
  return reinterpret_cast<std::uint16_t*>(
      groups_of(activations) + std::int64_t{activations.rows} * group_stride(activations.columns));
}

enum class BfloatOrder { none, rows, tiles };  // see MatmulArgs

template <RoundRow round, BfloatOrder order>
void round_row(const Activations& activations, int row, int first_block, const float* values,
               int columns, int blocks) {
  const std::int64_t row_size = std::int64_t{group_stride(activations.columns)} * kGroup;
  std::uint16_t* bfloats = bfloats_of(activations);
  if constexpr (order == BfloatOrder::rows) {
    round(values, columns, bfloats + row * row_size + first_block * kGroup, blocks, kGroup);
  } else {
    const int first = row / kTokenUnit * kTokenUnit;
    const std::int64_t stride = std::min(kTokenUnit, activations.rows - first) * kGroup;
    round(values, columns,
          bfloats + first * row_size + (row - first) * kGroup + first_block * stride, blocks,
          stride);
  }
}

template <QuantiseRow quantise, BfloatOrder order = BfloatOrder::none, RoundRow round = nullptr>
void prepare(const Activations& activations, int row, int first_column, int last_column,
             const float* values) {
  const int first = first_column / kGroup;
  const int last = last_column == activations.columns ? padded_groups(activations.columns)
                                                      : last_column / kGroup;
  const int columns = last_column - first_column;
  if (activations.forms.groups) {
    const std::int64_t stride = group_stride(activations.columns);
    quantise(values, columns, groups_of(activations) + row * stride + first, last - first);
  }
  if constexpr (order != BfloatOrder::none) {
    if (activations.forms.bfloats) {
      round_row<round, order>(activations, row, first, values, columns, last - first);
    }
  }
}

// Packs a part of a panel into `scratch` and multiplies it by all tokens, part after part: the same
// sums in the same order as from packed weights.
template <Multiply kernel>
void multiply_in_place(const Matrix& matrix, MatmulArgs args) {
  constexpr std::size_t kScratch = std::size_t{kInPlaceColumns} * kPanelRows * sizeof(float);
  alignas(64) std::byte scratch[kScratch];
  const MatmulArgs whole = args;
  for (std::int64_t panel = whole.first_panel; panel < whole.last_panel; ++panel) {
    for (int first = 0; first < whole.columns; first += kInPlaceColumns) {
      args.columns = std::min(kInPlaceColumns, whole.columns - first);
      pack_panel(matrix.source(), matrix.form(), panel, first, args.columns, scratch);
      args.panels = scratch;
      args.first_panel = 0;
      args.last_panel = 1;
      args.rows = std::min<std::int64_t>(kPanelRows, whole.rows - panel * kPanelRows);
      args.groups = whole.groups + first / kGroup;
      args.values = whole.values != nullptr ? whole.values + first : nullptr;
      args.first_bfloat_block = first / kGroup;
      args.bias = whole.bias && first + args.columns == whole.columns
                      ? whole.bias + panel * kPanelRows
                      : nullptr;
      args.resume = first > 0;
      args.output = whole.output + (panel - whole.first_panel) * kPanelRows;
      kernel(args);
    }
  }
}

template <Multiply kernel>
void multiply(const Matrix& matrix, const Activations& activations, const ProductPart& part,
              const float* bias, float* output, std::int64_t output_stride) {
  MatmulArgs args;
  args.type = matrix.type();
  args.form = matrix.form();
  args.panel_bytes = matrix.panel_bytes();
  args.rows = matrix.rows();
  args.first_panel = part.first_panel;
  args.last_panel = part.last_panel;
  args.bias = bias;
  args.columns = static_cast<int>(matrix.columns());
  args.tokens = part.tokens();
  args.group_stride = group_stride(activations.columns);
  args.groups = groups_of(activations) + part.first_token * args.group_stride;
  args.value_stride = activations.columns;
  if (activations.values != nullptr) {
    args.values = activations.values + part.first_token * args.value_stride;
  }
  args.bfloat_stride = args.group_stride * kGroup;
  args.bfloats = bfloats_of(activations) + part.first_token * args.bfloat_stride;
  args.output = output;
  args.output_stride = output_stride;
  if (matrix.in_place()) return multiply_in_place<kernel>(matrix, args);
  // The part as a matrix of its own.
  const std::int64_t first_row = part.first_panel * kPanelRows;
  args.panels = matrix.panels() + static_cast<std::size_t>(part.first_panel) * matrix.panel_bytes();
  args.rows -= first_row;
  args.last_panel -= args.first_panel;
  args.first_panel = 0;
  if (bias != nullptr) args.bias += first_row;
  kernel(args);
}

constexpr MatmulKernels kScalar = {prepare<quantise_row_scalar>, multiply<multiply_scalar>};
constexpr MatmulKernels kAvx2 = {prepare<quantise_row_avx2>, multiply<multiply_avx2>};
constexpr MatmulKernels kAvxVnni = {prepare<quantise_row_avx2>, multiply<multiply_avx_vnni>};
constexpr MatmulKernels kAvx512 = {prepare<quantise_row_avx512>, multiply<multiply_avx512>};
constexpr MatmulKernels kAvx512Bf16 = {
    prepare<quantise_row_avx512, BfloatOrder::rows, round_row_avx512_bf16>,
    multiply<multiply_avx512_bf16>};
constexpr MatmulKernels kAmx = {
    prepare<quantise_row_avx512, BfloatOrder::tiles, round_row_avx512_bf16>,
    multiply<multiply_amx>};

constexpr MatmulKernels kAmxInt8 = {
    prepare<quantise_row_avx512, BfloatOrder::tiles, round_row_avx512_bf16>,
    multiply<multiply_amx_int8>};
constexpr MatmulKernels kNeon = {prepare<quantise_row_neon>, multiply<multiply_neon>};
constexpr MatmulKernels kDotprod = {prepare<quantise_row_neon>, multiply<multiply_dotprod>};
constexpr MatmulKernels kI8mm = {prepare<quantise_row_neon>, multiply<multiply_i8mm>};

}  // namespace

std::size_t activation_bytes(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(group_stride(columns)) *
         (sizeof(ActivationGroup) + kGroup * sizeof(std::uint16_t));
}

const MatmulKernels& matmul_kernels(Isa isa) {
  switch (isa) {
    case Isa::i8mm:
      return kI8mm;
    case Isa::dotprod:
      return kDotprod;
    case Isa::neon:
      return kNeon;
    case Isa::amx:
      return kAmx;
    case Isa::amx_int8:
      return kAmxInt8;
    case Isa::avx512_bf16:
      return kAvx512Bf16;
    case Isa::avx512:
      return kAvx512;
    case Isa::avx_vnni:
      return kAvxVnni;
    case Isa::avx2:
      return kAvx2;
    case Isa::scalar:
      break;
  }
  return kScalar;
}

}  // namespace quire::cpu
