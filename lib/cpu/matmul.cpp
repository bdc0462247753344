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
void round_row(const Activations& activations, int row) {
  const int blocks = padded_groups(activations.columns);
  const std::int64_t row_size = std::int64_t{group_stride(activations.columns)} * kGroup;
  std::uint16_t* bfloats = bfloats_of(activations);
  const float* values = activations.values + std::int64_t{row} * activations.columns;
  if constexpr (order == BfloatOrder::rows) {
    round(values, activations.columns, bfloats + row * row_size, blocks, kGroup);
  } else {
    const int first = row / kTokenUnit * kTokenUnit;
    const std::int64_t rows = std::min(kTokenUnit, activations.rows - first);
    round(values, activations.columns, bfloats + first * row_size + (row - first) * kGroup, blocks,
          rows * kGroup);
  }
}

template <QuantiseRow quantise, BfloatOrder order = BfloatOrder::none, RoundRow round = nullptr>
void prepare(const Activations& activations, int first, int last) {
  const int groups = padded_groups(activations.columns);
  const std::int64_t stride = group_stride(activations.columns);
  for (std::int64_t row = first; row < last; ++row) {
    const float* values = activations.values + row * activations.columns;
    if (activations.forms.groups) {
      quantise(values, activations.columns, groups_of(activations) + row * stride, groups);
    }
    if constexpr (order != BfloatOrder::none) {
      if (activations.forms.bfloats) round_row<round, order>(activations, static_cast<int>(row));
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
      args.values = whole.values + first;
      args.first_bfloat_block = first / kGroup;
      args.bias = whole.bias && first + args.columns == whole.columns
                      ? whole.bias + panel * kPanelRows
                      : nullptr;
      args.resume = first > 0;
      args.output = whole.output + panel * kPanelRows;
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
  args.panels = matrix.panels();
  args.panel_bytes = matrix.panel_bytes();
  args.rows = matrix.rows();
  args.first_panel = part.first_panel;
  args.last_panel = part.last_panel;
  args.columns = static_cast<int>(matrix.columns());
  args.tokens = part.tokens();
  args.group_stride = group_stride(activations.columns);
  args.groups = groups_of(activations) + part.first_token * args.group_stride;
  args.value_stride = activations.columns;
  args.values = activations.values + part.first_token * args.value_stride;
  args.bfloat_stride = args.group_stride * kGroup;
  args.bfloats = bfloats_of(activations) + part.first_token * args.bfloat_stride;
  args.bias = bias;
  args.output = output + part.first_token * output_stride;
  args.output_stride = output_stride;
  if (matrix.in_place()) {
    multiply_in_place<kernel>(matrix, args);
  } else {
    kernel(args);
  }
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
