#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "tensor/blocks.h"
#include "tensor/tensor_view.h"

namespace quire::test {

inline constexpr DType kWeightTypes[] = {DType::f32,  DType::f16,    DType::bf16,   DType::q8_0,
                                         DType::q4_0, DType::q4_1,   DType::q5_0,   DType::q5_1,
                                         DType::q2_k, DType::q3_k,   DType::q4_k,   DType::q5_k,
                                         DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4};

// A stored matrix of random weights, and what the host's dequantise() makes of it.
struct StoredMatrix {
  DType type;
  std::int64_t rows, columns;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [rows][columns]

  TensorView view() const {
    TensorView tensor;
    tensor.name = "weights";
    tensor.type = type;
    tensor.shape = {rows, columns, 0, 0};
    tensor.dimensions = 2;
    tensor.bytes = bytes;
    return tensor;
  }
};

// Where a block of the type has binary16 numbers.
inline std::vector<int> half_fields(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    case DType::mxfp4:
      return {};
    default:
      return {0};
  }
}

inline StoredMatrix random_matrix(DType type, std::int64_t rows, std::int64_t columns,
                                  std::mt19937_64& random) {
  const DTypeInfo& entry = info(type);
  StoredMatrix matrix{type, rows, columns, {}, {}};
  const std::int64_t blocks = rows * columns / entry.block;
  matrix.bytes.resize(static_cast<std::size_t>(blocks * entry.block_bytes));
  std::normal_distribution<float> normal(0, 0.05f);
  std::uniform_real_distribution<float> scale(0.5f, 1.5f);
  for (std::int64_t i = 0; i < blocks; ++i) {
    std::byte* block = matrix.bytes.data() + i * entry.block_bytes;
    const float value = normal(random);
    if (type == DType::f32) {
      std::memcpy(block, &value, 4);
      continue;
    }
    if (type == DType::bf16 || type == DType::f16) {
      const std::uint16_t bits =
          type == DType::bf16 ? float_to_bfloat16(value) : float_to_half(value);
      std::memcpy(block, &bits, 2);
      continue;
    }
    for (int b = 0; b < entry.block_bytes; ++b) block[b] = static_cast<std::byte>(random());
    if (type == DType::mxfp4) block[0] = static_cast<std::byte>(118 + random() % 6);
    for (const int at : half_fields(type)) {
      const std::uint16_t bits = float_to_half(scale(random) * 0.004f);
      std::memcpy(block + at, &bits, 2);
    }
  }
  matrix.values.resize(static_cast<std::size_t>(rows * columns));
  dequantise(type, matrix.bytes.data(), rows * columns, matrix.values.data());
  return matrix;
}

// How far a product of bfloat16-rounded weights may be from the exact one. The largest weight of
// each run of 32 stands for the terms that a weight is the sum of.
inline double allowed_error(const StoredMatrix& matrix, std::int64_t row,
                            const std::vector<float>& input, std::int64_t token) {
  const float* weights = matrix.values.data() + row * matrix.columns;
  const float* x = input.data() + token * matrix.columns;
  double squares = 0, magnitudes = 0, largest = 0;
  for (std::int64_t k = 0; k < matrix.columns; ++k) {
    if (k % 32 == 0) {
      largest = 0;
      for (std::int64_t i = k; i < std::min(k + 32, matrix.columns); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(weights[i])));
      }
    }
    squares += largest * largest * x[k] * x[k];
    magnitudes += std::abs(static_cast<double>(weights[k]) * x[k]);
  }
  const double rounding = matrix.type == DType::bf16  ? 0
                          : matrix.type == DType::f32 ? 0x1p-15
                                                      : 0x1.8p-7;
  return rounding * std::sqrt(squares) + 4e-6 * magnitudes + 1e-7;
}

}  // namespace quire::test
