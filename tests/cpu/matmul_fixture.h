#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "catch.h"
#include "cpu/isa.h"
#include "cpu/matmul.h"
#include "cpu/pack.h"
#include "tensor/blocks.h"

namespace quire::cpu::test {

inline constexpr DType kAllTypes[] = {DType::f32,  DType::f16,    DType::bf16,   DType::q8_0,
                                      DType::q4_0, DType::q4_1,   DType::q5_0,   DType::q5_1,
                                      DType::q2_k, DType::q3_k,   DType::q4_k,   DType::q5_k,
                                      DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4};

inline std::vector<Isa> isas() {
  std::vector<Isa> supported;
  for (const Isa isa : kIsas) {
    if (supports(isa)) supported.push_back(isa);
  }
  return supported;
}

// Whether activations are rounded to bfloat16.
inline bool rounds_activations(DType type, Compute compute, Isa isa) {
  return type == DType::bf16 && compute == Compute::automatic &&
         (isa == Isa::avx512_bf16 || isa == Isa::amx || isa == Isa::amx_int8);
}

using Random = std::mt19937;

inline float uniform(Random& random, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random);
}

inline void put_half(std::byte* to, float value) {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(to, &bits, 2);
}

// Byte offsets of the binary16 fields of a block (-1: none).
struct HalfFields {
  int first, second;
};
inline HalfFields half_fields(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108, -1};
    case DType::q6_k:
      return {208, -1};
    case DType::mxfp4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

enum class Fill { random, largest, smallest, zero };

// Stored blocks with random codes, or with every code bit set or clear, and random (or zero)
// scales.
inline std::vector<std::byte> stored_matrix(DType type, int rows, int columns, Fill fill,
                                            Random& random) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * *row_bytes(type, columns));
  const std::size_t block = static_cast<std::size_t>(info(type).block_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    std::byte* to = bytes.data() + at;
    if (!is_quantised(type)) {
      const float value = fill == Fill::zero ? 0.0f : uniform(random, -1, 1);
      if (type == DType::f32) std::memcpy(to, &value, 4);
      if (type == DType::f16) put_half(to, value);
      if (type == DType::bf16) {
        const std::uint16_t bits = float_to_bfloat16(value);
        std::memcpy(to, &bits, 2);
      }
      continue;
    }
    for (std::size_t i = 0; i < block; ++i) {
      to[i] = fill == Fill::random    ? static_cast<std::byte>(random() & 255)
              : fill == Fill::largest ? std::byte{0xff}
                                      : std::byte{0};
    }
    if (type == DType::q8_0 && fill == Fill::largest) std::memset(to + 2, 0x7f, 32);
    if (type == DType::q8_0 && fill == Fill::smallest) std::memset(to + 2, 0x80, 32);
    const HalfFields fields = half_fields(type);
    const float scale = fill == Fill::zero ? 0.0f : 0.02f;
    if (fields.first >= 0) put_half(to + fields.first, uniform(random, -scale, scale));
    if (fields.second >= 0) put_half(to + fields.second, uniform(random, -scale, scale));
    if (type == DType::mxfp4)
      to[0] = static_cast<std::byte>(fill == Fill::zero ? 0 : 120 + random() % 6);
  }
  return bytes;
}

inline TensorView view_of(const std::vector<std::byte>& bytes, DType type, int rows, int columns) {
  TensorView view;
  view.name = "test";
  view.type = type;
  view.shape = {rows, columns, 0, 0};
  view.dimensions = 2;
  view.bytes = bytes;
  return view;
}

inline std::unique_ptr<ThreadPool> make_pool(int threads) {
  ThreadPoolOptions options;
  options.threads = threads;
  auto pool = ThreadPool::create(options);
  REQUIRE(pool.ok());
  return std::move(*pool);
}

inline std::unique_ptr<PackedMatrix> pack(const TensorView& view, Compute compute, Isa isa,
                                          bool in_place = false, PackSpec spec = {}) {
  const auto pool = make_pool(2);
  auto matrix = pack_matrix(view, spec, compute, in_place, isa, *pool);
  INFO(matrix.status().message());
  REQUIRE(matrix.ok());
  CHECK((*matrix)->rows() == view.rows());
  CHECK((*matrix)->columns() == view.columns());
  CHECK((*matrix)->bytes() ==
        packed_matrix_bytes(view.type, view.rows(), view.columns(), spec, compute, in_place, isa));
  return std::move(*matrix);
}

inline const Matrix& as_matrix(const PackedMatrix& packed) {
  return static_cast<const Matrix&>(packed);
}

// Storage aligned to 64 bytes, of exactly the size asked for.
class Prepared {
 public:
  Prepared(Isa isa, const std::vector<float>& values, int rows, int columns)
      : storage_(::operator new[](activation_bytes(rows, columns), std::align_val_t(64))) {
    activations_.rows = rows;
    activations_.columns = columns;
    activations_.values = values.data();
    activations_.storage = static_cast<std::byte*>(storage_);
    std::memset(storage_, 0xab, activation_bytes(rows, columns));
    const int middle = columns / 2 / 32 * 32;  // rows in two parts, as two threads would
    for (int row = rows - 1; row >= 0; --row) {
      const float* x = values.data() + std::ptrdiff_t{row} * columns;
      matmul_kernels(isa).prepare(activations_, row, middle, columns, x + middle);
      if (middle > 0) matmul_kernels(isa).prepare(activations_, row, 0, middle, x);
    }
  }
  ~Prepared() { ::operator delete[](storage_, std::align_val_t(64)); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const Activations& get() const { return activations_; }
  const std::byte* bytes() const { return activations_.storage; }

 private:
  void* storage_;
  Activations activations_;
};

inline std::vector<float> random_values(int count, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

inline std::int64_t panels_of(const PackedMatrix& matrix) {
  return (matrix.rows() + kPanelRows - 1) / kPanelRows;
}

// The product of all rows, its output with `padding` floats between tokens that must stay
// untouched.
inline std::vector<float> product(Isa isa, const PackedMatrix& matrix,
                                  const std::vector<float>& values, int tokens,
                                  const float* bias = nullptr, std::int64_t split = 1 << 30) {
  const int columns = static_cast<int>(matrix.columns());
  const Prepared prepared(isa, values, tokens, columns);
  const std::int64_t rows = matrix.rows();
  const std::int64_t stride = rows + 3;
  std::vector<float> output(static_cast<std::size_t>(tokens * stride), 12345.0f);
  for (std::int64_t first = 0; first < panels_of(matrix); first += split) {
    // Tokens in two parts as well, where there are enough.
    const std::int64_t last = std::min(panels_of(matrix), first + split);
    const int middle = tokens / 2 / kTokenUnit * kTokenUnit;
    for (const auto& [begin, end] : {std::pair(0, middle), std::pair(middle, tokens)}) {
      matmul_kernels(isa).multiply(as_matrix(matrix), prepared.get(), {first, last, begin, end},
                                   bias, output.data() + begin * stride + first * kPanelRows,
                                   stride);
    }
  }
  std::vector<float> result(static_cast<std::size_t>(tokens * rows));
  bool untouched = true;
  for (int t = 0; t < tokens; ++t) {
    std::copy_n(output.data() + t * stride, rows, result.data() + t * rows);
    for (std::int64_t r = rows; r < stride; ++r)
      untouched = untouched && output[t * stride + r] == 12345.0f;
  }
  CHECK(untouched);
  return result;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<float> first_tokens(const std::vector<float>& values, int tokens, int width) {
  return std::vector<float>(values.begin(), values.begin() + tokens * width);
}

inline int columns_of(DType type) {
  return info(type).block == 256 ? 512 : info(type).block == 32 ? 224 : 75;
}

struct Largest {
  double error_over_bound = 0;
};

// Checks every output against exact products of the dequantised weights.
inline void check_against_doubles(DType type, const std::vector<std::byte>& stored, int rows,
                                  int columns, const std::vector<float>& values, int tokens,
                                  Compute compute, Isa isa, const std::vector<float>& output) {
  const bool integer = is_quantised(type) && compute == Compute::automatic;
  // Half a unit in the last of 8 bits.
  const double rounding = rounds_activations(type, compute, isa) ? 1.0 / 256 : 0;
  std::vector<float> weights(static_cast<std::size_t>(rows * columns));
  dequantise(type, stored.data(), std::int64_t{rows} * columns, weights.data());
  double worst = 0;
  for (int t = 0; t < tokens; ++t) {
    const float* x = values.data() + t * columns;
    for (int r = 0; r < rows; ++r) {
      const float* w = weights.data() + r * columns;
      double exact = 0, magnitude = 0, bound = 0;
      for (int first = 0; first < columns; first += 32) {
        double largest = 0, weight_sum = 0;
        for (int k = first; k < std::min(columns, first + 32); ++k) {
          exact += double{w[k]} * x[k];
          magnitude += std::fabs(double{w[k]} * x[k]);
          largest = std::max(largest, std::fabs(double{x[k]}));
          weight_sum += std::fabs(double{w[k]});
        }
        if (integer) bound += largest / 127 / 2 * 1.0001 * weight_sum;
      }
      // Rounding in float32, also of a minimum that cancels against its codes.
      bound += (rounding + (integer ? 1e-4 : columns * 6e-8)) * magnitude + 1e-30;
      worst = std::max(worst,
                       std::fabs(exact - output[static_cast<std::size_t>(t * rows + r)]) / bound);
    }
  }
  CHECK(worst <= 1.0);
}

inline std::string title(DType type, Isa isa, Compute compute) {
  return std::string(info(type).name) + " " + std::string(isa_name(isa)) +
         (compute == Compute::f32 ? " f32" : " automatic");
}

}  // namespace quire::cpu::test
