#include "cpu/pack.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "cpu/matmul.h"
#include "cpu/pack_expand.h"
#include "cpu/pack_unpack.h"
#include "tensor/blocks.h"

namespace quire::cpu {
namespace {

std::uint32_t load_u32(const std::uint8_t* from) {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store_u32(std::uint8_t* to, std::uint32_t value) {
  std::memcpy(to, &value, sizeof value);
}

// Writes `count` bits of each of a row's 32 codes, from bit `first`: 8 / count quads to a vector,
// the first of them lowest.
template <int count>
void interleave_bits(const std::uint8_t* codes, int first, std::uint8_t* to) {
  constexpr int kQuads = 8 / count;
  constexpr std::uint32_t kMask = 0x01010101u * ((1u << count) - 1);
  for (int v = 0; v < count; ++v) {
    std::uint32_t bits = 0;
    for (int quad = 0; quad < kQuads; ++quad) {
      bits |= (load_u32(codes + 4 * (kQuads * v + quad)) >> first & kMask) << (count * quad);
    }
    store_u32(to + kVectorBytes * v, bits);
  }
}

// Writes one row's 32 codes into its four bytes of each vector of the group.
template <CodeForm form>
void interleave_codes(const std::uint8_t* codes, std::uint8_t* to) {
  if constexpr (form == CodeForm::bytes) {
    for (int quad = 0; quad < 8; ++quad) {
      std::memcpy(to + kVectorBytes * quad, codes + 4 * quad, 4);
    }
    return;
  }
  if constexpr (form == CodeForm::pairs || form == CodeForm::pairs_1) {
    interleave_bits<2>(codes, 0, to);
    if constexpr (form == CodeForm::pairs_1) interleave_bits<1>(codes, 2, to + kVectorBytes * 2);
    return;
  }
  for (int v = 0; v < 4; ++v) {
    const std::uint32_t low = load_u32(codes + 4 * v) & 0x0f0f0f0fu;
    const std::uint32_t high = load_u32(codes + 16 + 4 * v) & 0x0f0f0f0fu;
    store_u32(to + kVectorBytes * v, low | high << 4);
  }
  if constexpr (form == CodeForm::nibbles_1) interleave_bits<1>(codes, 4, to + kVectorBytes * 4);
  if constexpr (form == CodeForm::nibbles_2) interleave_bits<2>(codes, 4, to + kVectorBytes * 4);
}

void store_u16(std::uint8_t* to, int index, std::uint16_t value) {
  std::memcpy(to + 2 * index, &value, sizeof value);
}

template <class Format>
void interleave_scales(const RowRecord& record, int row, std::uint8_t* to) {
  if constexpr (Format::kScales == ScaleForm::half || Format::kScales == ScaleForm::bfloat ||
                Format::kScales == ScaleForm::half_min) {
    for (int group = 0; group < 2; ++group) {
      store_u16(to, 16 * group + row, record.scale[group]);
      if constexpr (Format::kScales == ScaleForm::half_min) {
        store_u16(to, 32 + 16 * group + row, record.minimum[group]);
      }
    }
  } else {
    using Sizes = PackedSizes<Format>;
    store_u16(to, row, record.scale[0]);
    if constexpr (Sizes::kMinimum) store_u16(to, 16 + row, record.minimum[0]);
    for (int i = 0; i < Sizes::kGroups * Sizes::kParts; ++i)
      to[64 + 16 * i + row] = record.factor[i];
    if constexpr (Format::kScales == ScaleForm::super_min) {
      for (int i = 0; i < 8; ++i) to[64 + 128 + 16 * i + row] = record.minimum_factor[i];
    }
  }
}

// Asks for bytes that are read soon; there need not be any at that address.
void fetch(std::uintptr_t address, int bytes) {
  for (int at = 0; at < bytes; at += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + static_cast<std::uintptr_t>(at)));
  }
}

// Rows behind the last one of the matrix are zero: no pointer.
using PanelRows = const std::byte* [kPanelRows];

template <class Format>
void pack_quantised_panel(const PanelRows& rows, std::int64_t columns, std::byte* to) {
  using Sizes = PackedSizes<Format>;
  const int block = info(Format::kType).block;
  const int block_bytes = info(Format::kType).block_bytes;
  const int record_blocks = Sizes::kColumns / block;
  const std::int64_t blocks = columns / block;
  // The rows of a panel are read side by side, too many streams for the processor to follow: the
  // next panel is fetched meanwhile.
  const auto ahead = static_cast<std::uintptr_t>(kPanelRows * blocks * block_bytes);
  RowRecord record;
  for (std::int64_t first = 0; first < blocks; first += record_blocks) {
    std::uint8_t* out =
        reinterpret_cast<std::uint8_t*>(to) + first / record_blocks * Sizes::kRecordBytes;
    const int count = static_cast<int>(std::min<std::int64_t>(record_blocks, blocks - first));
    if constexpr (Sizes::kGroups == 8) std::memset(out + Sizes::kCodeBytes, 0, 64);
    for (int row = 0; row < kPanelRows; ++row) {
      const std::byte* from = rows[row] ? rows[row] + first * block_bytes : nullptr;
      fetch(reinterpret_cast<std::uintptr_t>(from) + ahead, block_bytes * record_blocks);
      unpack_record(Format::kType, from, from ? count : 0, record);
      for (int group = 0; group < Sizes::kGroups; ++group) {
        interleave_codes<Format::kCodes>(record.codes + kGroup * group,
                                         out + group * Sizes::kGroupBytes + 4 * row);
      }
      interleave_scales<Format>(record, row, out + Sizes::kCodeBytes);
    }
  }
}

// Byte offset of an element in a panel of pairs.
std::size_t pair_offset(int row, std::int64_t column) {
  return 2 * static_cast<std::size_t>((column / 2 * kPanelRows + row) * 2 + column % 2);
}

template <class Element>
void pack_plain_panel(const PanelRows& rows, std::int64_t columns, std::byte* to) {
  for (int row = 0; row < kPanelRows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      Element value = 0;
      if (rows[row]) std::memcpy(&value, rows[row] + column * sizeof(Element), sizeof value);
      std::memcpy(to + (column * kPanelRows + row) * sizeof(Element), &value, sizeof value);
    }
  }
}

void pack_pairs_panel(const PanelRows& rows, std::int64_t columns, std::byte* to) {
  const std::int64_t padded = round_up<std::int64_t>(columns, kGroup);
  for (int row = 0; row < kPanelRows; ++row) {
    for (std::int64_t column = 0; column < padded; ++column) {
      std::uint16_t value = 0;
      if (rows[row] && column < columns) std::memcpy(&value, rows[row] + 2 * column, 2);
      std::memcpy(to + pair_offset(row, column), &value, 2);
    }
  }
}

std::int64_t stored_row(const Matrix::Source& source, std::int64_t row) {
  if (source.unpermute_heads == 0) return row;
  const std::int64_t size = source.view.rows() / source.unpermute_heads;
  const std::int64_t head = row / size, within = row % size;
  return head * size + 2 * (within % (size / 2)) + within / (size / 2);
}

MatmulForm form_of(DType type, Compute compute, Isa isa) {
  if (is_quantised(type)) {
    return compute == Compute::f32 ? MatmulForm::expanded : MatmulForm::integer;
  }
  if (type == DType::bf16 && compute == Compute::automatic) {
    if (isa == Isa::avx512_bf16) return MatmulForm::bfloat_pairs;
    if (isa == Isa::amx || isa == Isa::amx_int8) return MatmulForm::bfloat_tiles;
  }
  return MatmulForm::plain;
}

// Panels taken at once, about 256 KiB.
std::int64_t panels_at_once(std::size_t panel_bytes) {
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>((std::size_t{256} << 10) / panel_bytes));
}

void pack_all(Matrix& matrix, ThreadPool& pool) {
  const std::int64_t panels = ceil_div<std::int64_t>(matrix.rows(), kPanelRows);
  const std::int64_t step = panels_at_once(matrix.panel_bytes());
  std::atomic<std::int64_t> next{0};
  auto body = [&](int, int) {
    for (std::int64_t first = next.fetch_add(step); first < panels; first = next.fetch_add(step)) {
      for (std::int64_t panel = first; panel < std::min(panels, first + step); ++panel) {
        pack_panel(matrix.source(), matrix.form(), panel, 0, matrix.columns(),
                   matrix.panels() + static_cast<std::size_t>(panel) * matrix.panel_bytes());
      }
    }
  };
  pool.run(body);
}

}  // namespace

std::size_t panel_bytes(DType type, MatmulForm form, std::int64_t columns) {
  if (in_pairs(form)) columns = round_up<std::int64_t>(columns, kGroup);
  if (!is_quantised(type)) {
    return static_cast<std::size_t>(columns) * kPanelRows *
           static_cast<std::size_t>(info(type).block_bytes);
  }
  const RecordShape shape = record_shape(type);
  return static_cast<std::size_t>(ceil_div<std::int64_t>(columns, shape.columns)) *
         static_cast<std::size_t>(shape.bytes);
}

void pack_panel(const Matrix::Source& source, MatmulForm form, std::int64_t panel,
                std::int64_t first_column, std::int64_t columns, std::byte* to) {
  const TensorView& view = source.view;
  const std::size_t row_size = view.row_size();
  const DTypeInfo& type = info(view.type);
  const std::size_t skipped = static_cast<std::size_t>(first_column / type.block) *
                              static_cast<std::size_t>(type.block_bytes);
  PanelRows rows = {};
  for (int i = 0; i < kPanelRows; ++i) {
    const std::int64_t row = panel * kPanelRows + i;
    if (row >= view.rows()) continue;
    rows[i] =
        view.bytes.data() + static_cast<std::size_t>(stored_row(source, row)) * row_size + skipped;
  }
  const bool quantised = visit_packed_format(
      view.type, [&]<class Format>() { pack_quantised_panel<Format>(rows, columns, to); });
  if (quantised) return;
  if (in_pairs(form)) {
    pack_pairs_panel(rows, columns, to);
  } else if (view.type == DType::f32) {
    pack_plain_panel<std::uint32_t>(rows, columns, to);
  } else {
    pack_plain_panel<std::uint16_t>(rows, columns, to);
  }
}

Result<std::unique_ptr<PackedMatrix>> pack_matrix(const TensorView& stored, const PackSpec& spec,
                                                  Compute compute, bool in_place, Isa isa,
                                                  ThreadPool& pool, PackArena* arena) {
  if (Status status = check_matrix(stored, spec); !status.ok()) return status;
  const MatmulForm form = form_of(stored.type, compute, isa);
  const std::size_t one = panel_bytes(stored.type, form, stored.columns());
  const std::optional<std::size_t> bytes =
      (CheckedSize(one) *
       CheckedSize(static_cast<std::uint64_t>(ceil_div<std::int64_t>(stored.rows(), kPanelRows))))
          .get();
  if (!bytes) {
    return error(StatusCode::out_of_memory, "{}: {} x {} elements do not fit into memory",
                 stored.name, stored.rows(), stored.columns());
  }
  return guarded("packing a matrix", [&]() -> Result<std::unique_ptr<PackedMatrix>> {
    PackBuffer buffer;
    if (!in_place) {
      PackArena own_arena(0);
      buffer = (arena ? *arena : own_arena).allocate(*bytes);
      if (!buffer.data()) {
        return error(StatusCode::out_of_memory, "{}: the system refused {} bytes", stored.name,
                     *bytes);
      }
    }
    auto matrix = std::make_unique<Matrix>(Matrix::Source{stored, spec.unpermute_heads}, form, one,
                                           std::move(buffer));
    if (!in_place) pack_all(*matrix, pool);
    return std::unique_ptr<PackedMatrix>(std::move(matrix));
  });
}

std::size_t packed_matrix_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                const PackSpec&, Compute compute, bool in_place, Isa isa) {
  if (in_place || rows <= 0 || columns <= 0) return 0;
  return (CheckedSize(panel_bytes(type, form_of(type, compute, isa), columns)) *
          CheckedSize(static_cast<std::uint64_t>(ceil_div<std::int64_t>(rows, kPanelRows))))
      .get()
      .value_or(SIZE_MAX);
}

void gather_row(const PackedMatrix& packed, std::int64_t row, float* to) {
  const Matrix& matrix = static_cast<const Matrix&>(packed);
  const DType type = matrix.type();
  const std::int64_t columns = matrix.columns();
  if (matrix.in_place()) {
    const std::int64_t stored = stored_row(matrix.source(), row);
    const std::size_t row_size = matrix.source().view.row_size();
    dequantise(type,
               matrix.source().view.bytes.data() + static_cast<std::size_t>(stored) * row_size,
               columns, to);
    return;
  }
  const std::byte* panel =
      matrix.panels() + static_cast<std::size_t>(row / kPanelRows) * matrix.panel_bytes();
  const int lane = static_cast<int>(row % kPanelRows);
  if (!is_quantised(type)) {
    const std::size_t size = static_cast<std::size_t>(info(type).block_bytes);
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::size_t at = in_pairs(matrix.form())
                                 ? pair_offset(lane, column)
                                 : static_cast<std::size_t>(column * kPanelRows + lane) * size;
      dequantise(type, panel + at, 1, to + column);
    }
    return;
  }
  const RecordShape shape = record_shape(type);
  for (std::int64_t column = 0; column < columns; column += kGroup) {
    const std::int64_t record = column / shape.columns;
    expand_row(type,
               panel + static_cast<std::size_t>(record) * static_cast<std::size_t>(shape.bytes),
               static_cast<int>(column % shape.columns / kGroup), lane, to + column);
  }
}

}  // namespace quire::cpu
