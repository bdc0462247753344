#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/matmul_kernels.h"
#include "cpu/pack_buffer.h"
#include "device/packed_matrix.h"
#include "tensor/tensor_view.h"

namespace quire::cpu {

// A weight matrix as this backend multiplies it: panels of 16 rows (see packed_format.h; those of
// F32, F16 and BF16 are [columns][16] elements, with bfloat16 activations [columns / 2][16][2],
// padded to 32 columns), or the stored rows where they are.
class Matrix final : public PackedMatrix {
 public:
  // Which stored row is row r: see PackSpec::unpermute_heads.
  struct Source {
    TensorView view;
    int unpermute_heads = 0;
  };

  Matrix(const Source& source, MatmulForm form, std::size_t panel_bytes, PackBuffer panels)
      : PackedMatrix(source.view.rows(), source.view.columns()),
        source_(source),
        form_(form),
        panel_bytes_(panel_bytes),
        panels_(std::move(panels)) {}

  std::size_t bytes() const override { return panels_.size(); }

  DType type() const { return source_.view.type; }
  MatmulForm form() const { return form_; }
  bool in_place() const { return panels_.data() == nullptr; }
  const std::byte* panels() const { return panels_.data(); }
  std::byte* panels() { return panels_.data(); }
  std::size_t panel_bytes() const { return panel_bytes_; }
  // The stored bytes are still there only for a matrix in place.
  const Source& source() const { return source_; }

 private:
  Source source_;
  MatmulForm form_;
  std::size_t panel_bytes_;
  PackBuffer panels_;
};

// Whether weights and activations are bfloat16, two columns side by side.
inline bool in_pairs(MatmulForm form) {
  return form == MatmulForm::bfloat_pairs || form == MatmulForm::bfloat_tiles;
}

// Bytes of one panel over `columns` columns.
std::size_t panel_bytes(DType type, MatmulForm form, std::int64_t columns);

// Packs columns [first_column, first_column + columns) of one panel; first_column is a multiple of
// the type's packed record.
void pack_panel(const Matrix::Source& source, MatmulForm form, std::int64_t panel,
                std::int64_t first_column, std::int64_t columns, std::byte* to);

}  // namespace quire::cpu
