#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <quire/engine_options.h>
#include <quire/status.h>

#include "base/thread_pool.h"
#include "device/packed_matrix.h"
#include "tensor/tensor_view.h"

namespace quire::cpu {

// Instruction sets with an own table; see isa.h for the choice.
enum class Isa {
  scalar,
  avx2,         // with FMA and F16C
  avx_vnni,     // avx2 with AVX-VNNI
  avx512,       // F, BW, DQ, VL and VNNI
  avx512_bf16,  // avx512 with BF16
  amx_int8,     // amx, 8-bit activations on tiles too: no faster where it was measured
  amx,          // avx512_bf16 with AMX for bfloat16
  neon,         // of every AArch64 processor
  dotprod,      // neon with dot products (Armv8.2)
  i8mm,         // dotprod with 8-bit matrix products (Armv8.6)
};

// Which forms of its activations a model's matrices read.
struct ActivationForms {
  bool groups = true;   // 8-bit
  bool bfloats = true;  // bfloat16, where the instruction set multiplies them
  bool floats = true;
};

// Rows of activations prepared for every kind of weight: the floats, their 8-bit form in groups of
// 32 with one float scale each (value = scale * code), and where the instruction set multiplies
// them, their bfloat16 form. The storage belongs to the device's scratch.
struct Activations {
  int rows = 0;
  int columns = 0;                // padded inside to whole groups; the padding is zero
  const float* values = nullptr;  // [rows][columns]; not read without forms.floats
  std::byte* storage = nullptr;   // activation_bytes(rows, columns), 64-byte aligned
  ActivationForms forms;          // what `prepare` fills in
};

std::size_t activation_bytes(int rows, int columns);

class PackArena;  // see pack_buffer.h
class Matrix;     // the packed matrix of this backend, a PackedMatrix

constexpr int kPanelRows = 16;  // output rows of a panel; the last one of a matrix may be partial
constexpr int kTokenUnit = 16;  // tokens whose prepared activations may lie interleaved

// A part of a product: output rows of panels [first_panel, last_panel), tokens [first_token,
// last_token). It begins at a multiple of kTokenUnit and ends at one or with the last token.
struct ProductPart {
  std::int64_t first_panel = 0;
  std::int64_t last_panel = 0;
  int first_token = 0;
  int last_token = 0;
  int tokens() const { return last_token - first_token; }
};

// The matrix kernels of one instruction set. Output (row r, token t) has the same bits for any
// number of tokens and any split of the output rows.
struct MatmulKernels {
  // Brings columns [first_column, last_column) of a row into the forms, in the activations'
  // storage; `values` are those of these columns. They begin at a multiple of 32 and end at one or
  // with the row.
  void (*prepare)(const Activations& activations, int row, int first_column, int last_column,
                  const float* values);
  // output[t * output_stride + r] = sum_k W[r][k] * x[t][k] (+ bias[r] if bias) for the tokens t
  // and the output rows r of the part, both counted from its first; `activations` begin at token 0.
  void (*multiply)(const Matrix& matrix, const Activations& activations, const ProductPart& part,
                   const float* bias, float* output, std::int64_t output_stride);
};

const MatmulKernels& matmul_kernels(Isa isa);

// Packs a stored matrix for `compute` (automatic: 8-bit activations for quantised types, bfloat16
// ones for BF16 where the instruction set multiplies them, float32 for the rest; f32: float32
// activations for all), in parallel. `in_place` keeps the stored bytes where they are and
// multiplies them as stored (they must outlive the matrix). The memory comes from `arena`, so that
// matrices share huge pages, or from mappings of its own.
Result<std::unique_ptr<PackedMatrix>> pack_matrix(const TensorView& stored, const PackSpec& spec,
                                                  Compute compute, bool in_place, Isa isa,
                                                  ThreadPool& pool, PackArena* arena = nullptr);
std::size_t packed_matrix_bytes(DType type, std::int64_t rows, std::int64_t columns,
                                const PackSpec& spec, Compute compute, bool in_place, Isa isa);

// Row r of a matrix packed with `gather`, expanded to float32 (the stored weights' exact values).
void gather_row(const PackedMatrix& matrix, std::int64_t row, float* to);

}  // namespace quire::cpu
