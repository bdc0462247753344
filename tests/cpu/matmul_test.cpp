#include "cpu/matmul.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "catch.h"
#include "cpu/isa.h"
#include "cpu/pack.h"
#include "tensor/blocks.h"

// One conformance suite for the matrix kernels of every instruction set.

namespace quire::cpu {
namespace {

constexpr DType kAllTypes[] = {DType::f32,  DType::f16,    DType::bf16,   DType::q8_0,
                               DType::q4_0, DType::q4_1,   DType::q5_0,   DType::q5_1,
                               DType::q2_k, DType::q3_k,   DType::q4_k,   DType::q5_k,
                               DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4};

std::vector<Isa> isas() {
  std::vector<Isa> supported;
  for (const Isa isa : kIsas) {
    if (supports(isa)) supported.push_back(isa);
  }
  return supported;
}

// Whether activations are rounded to bfloat16.
bool rounds_activations(DType type, Compute compute, Isa isa) {
  return type == DType::bf16 && compute == Compute::automatic &&
         (isa == Isa::avx512_bf16 || isa == Isa::amx || isa == Isa::amx_int8);
}

using Random = std::mt19937;

float uniform(Random& random, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random);
}

void put_half(std::byte* to, float value) {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(to, &bits, 2);
}

// Byte offsets of the binary16 fields of a block (-1: none).
struct HalfFields {
  int first, second;
};
HalfFields half_fields(DType type) {
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
std::vector<std::byte> stored_matrix(DType type, int rows, int columns, Fill fill, Random& random) {
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

TensorView view_of(const std::vector<std::byte>& bytes, DType type, int rows, int columns) {
  TensorView view;
  view.name = "test";
  view.type = type;
  view.shape = {rows, columns, 0, 0};
  view.dimensions = 2;
  view.bytes = bytes;
  return view;
}

std::unique_ptr<ThreadPool> make_pool(int threads) {
  ThreadPoolOptions options;
  options.threads = threads;
  auto pool = ThreadPool::create(options);
  REQUIRE(pool.ok());
  return std::move(*pool);
}

std::unique_ptr<PackedMatrix> pack(const TensorView& view, Compute compute, Isa isa,
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

const Matrix& as_matrix(const PackedMatrix& packed) {
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
    const int middle = rows / 2;  // in two parts, as two threads would
    matmul_kernels(isa).prepare(activations_, middle, rows);
    matmul_kernels(isa).prepare(activations_, 0, middle);
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

std::vector<float> random_values(int count, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

std::int64_t panels_of(const PackedMatrix& matrix) {
  return (matrix.rows() + kPanelRows - 1) / kPanelRows;
}

// The product of all rows, its output with `padding` floats between tokens that must stay
// untouched.
std::vector<float> product(Isa isa, const PackedMatrix& matrix, const std::vector<float>& values,
                           int tokens, const float* bias = nullptr, std::int64_t split = 1 << 30) {
  const int columns = static_cast<int>(matrix.columns());
  const Prepared prepared(isa, values, tokens, columns);
  const std::int64_t rows = matrix.rows();
  const std::int64_t stride = rows + 3;
  std::vector<float> output(static_cast<std::size_t>(tokens * stride), 12345.0f);
  for (std::int64_t first = 0; first < panels_of(matrix); first += split) {
    matmul_kernels(isa).multiply(as_matrix(matrix), prepared.get(), first,
                                 std::min(panels_of(matrix), first + split), bias, output.data(),
                                 stride);
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

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> first_tokens(const std::vector<float>& values, int tokens, int width) {
  return std::vector<float>(values.begin(), values.begin() + tokens * width);
}

int columns_of(DType type) {
  return info(type).block == 256 ? 512 : info(type).block == 32 ? 224 : 75;
}

struct Largest {
  double error_over_bound = 0;
};

// Checks every output against exact products of the dequantised weights.
void check_against_doubles(DType type, const std::vector<std::byte>& stored, int rows, int columns,
                           const std::vector<float>& values, int tokens, Compute compute, Isa isa,
                           const std::vector<float>& output) {
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

std::string title(DType type, Isa isa, Compute compute) {
  return std::string(info(type).name) + " " + std::string(isa_name(isa)) +
         (compute == Compute::f32 ? " f32" : " automatic");
}

}  // namespace

TEST_CASE("matmul: which instruction sets are not tested here", "[matmul]") {
  for (const Isa isa : kIsas) {
    if (!supports(isa)) WARN("not tested: this processor lacks " << isa_name(isa));
  }
  CHECK(supports(Isa::scalar));
}

TEST_CASE("matmul: every type is within its error bound", "[matmul]") {
  Random random(1);
  const int tokens = 7, rows = 53;
  for (const DType type : kAllTypes) {
    const int columns = columns_of(type);
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    const auto values = random_values(tokens * columns, random);
    for (const Compute compute : {Compute::automatic, Compute::f32}) {
      for (const Isa isa : isas()) {
        const auto matrix = pack(view_of(stored, type, rows, columns), compute, isa);
        INFO(title(type, isa, compute));
        check_against_doubles(type, stored, rows, columns, values, tokens, compute, isa,
                              product(isa, *matrix, values, tokens));
      }
    }
  }
}

TEST_CASE("matmul: no sum saturates at the largest codes and activations", "[matmul]") {
  Random random(2);
  const int tokens = 5, rows = 32;
  for (const DType type : kAllTypes) {
    const int columns = columns_of(type);
    std::vector<float> values(static_cast<std::size_t>(tokens * columns), 3.0f);
    for (int k = 0; k < columns; ++k) values[static_cast<std::size_t>(columns + k)] = -3.0f;
    for (int k = 0; k < columns; ++k)
      values[static_cast<std::size_t>(2 * columns + k)] = k % 2 ? -3.0f : 3.0f;
    for (const Fill fill : {Fill::largest, Fill::smallest, Fill::zero}) {
      const auto stored = stored_matrix(type, rows, columns, fill, random);
      for (const Compute compute : {Compute::automatic, Compute::f32}) {
        for (const Isa isa : isas()) {
          const auto matrix = pack(view_of(stored, type, rows, columns), compute, isa);
          INFO(title(type, isa, compute) << " fill " << static_cast<int>(fill));
          check_against_doubles(type, stored, rows, columns, values, tokens, compute, isa,
                                product(isa, *matrix, values, tokens));
        }
      }
    }
  }
}

TEST_CASE("matmul: same bits for any number of tokens, split of panels and instruction set",
          "[matmul]") {
  Random random(3);
  const int most = 64, rows = 83;
  for (const DType type : kAllTypes) {
    const int columns = columns_of(type);
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    const auto values = random_values(most * columns, random);
    std::vector<float> bias = random_values(rows, random);
    for (const Compute compute : {Compute::automatic, Compute::f32}) {
      std::vector<float> reference;
      for (const Isa isa : isas()) {
        const auto matrix = pack(view_of(stored, type, rows, columns), compute, isa);
        const auto in_place = pack(view_of(stored, type, rows, columns), compute, isa, true);
        // The plain code knows the arithmetic of every form.
        if (isa == Isa::scalar || rounds_activations(type, compute, isa)) {
          reference = product(Isa::scalar, *matrix, values, most, bias.data());
        }
        INFO(title(type, isa, compute));
        CHECK(same_bits(product(isa, *matrix, values, most, bias.data()), reference));
        CHECK(same_bits(product(isa, *matrix, values, most, bias.data(), 1), reference));
        CHECK(same_bits(product(isa, *matrix, values, most, bias.data(), 3), reference));
        if (isa == Isa::scalar && compute == Compute::f32) continue;  // slow, and the same code
        for (const int tokens :
             {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 23, 31, 33, 47, 63}) {
          INFO(tokens);
          CHECK(same_bits(product(isa, *matrix, values, tokens, bias.data()),
                          first_tokens(reference, tokens, rows)));
        }
        CHECK(same_bits(product(isa, *in_place, values, 9, bias.data()),
                        first_tokens(reference, 9, rows)));
      }
    }
  }
}

TEST_CASE("matmul: same bits for many tokens and columns", "[matmul]") {
  Random random(8);
  const int tokens = 147, rows = 50, columns = 1536;  // more than the blocks of every kernel
  for (const DType type : {DType::q4_1, DType::q8_0, DType::q6_k, DType::bf16, DType::f16}) {
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    const auto values = random_values(tokens * columns, random);
    const auto bias = random_values(rows, random);
    for (const Isa isa : isas()) {
      if (isa == Isa::scalar) continue;
      INFO(title(type, isa, Compute::automatic));
      const auto matrix = pack(view_of(stored, type, rows, columns), Compute::automatic, isa);
      CHECK(same_bits(product(isa, *matrix, values, tokens, bias.data()),
                      product(Isa::scalar, *matrix, values, tokens, bias.data())));
    }
  }
}

TEST_CASE("matmul: stored weights in place go on over many parts with the same bits", "[matmul]") {
  Random random(4);
  const int tokens = 3, rows = 18, columns = 2304;
  for (const DType type : {DType::q4_1, DType::q6_k, DType::f16, DType::bf16, DType::f32}) {
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    const auto values = random_values(tokens * columns, random);
    const auto bias = random_values(rows, random);
    for (const Compute compute : {Compute::automatic, Compute::f32}) {
      for (const Isa isa : isas()) {
        const auto matrix = pack(view_of(stored, type, rows, columns), compute, isa);
        const auto in_place = pack(view_of(stored, type, rows, columns), compute, isa, true);
        CHECK(in_place->bytes() == 0);
        INFO(title(type, isa, compute));
        CHECK(same_bits(product(isa, *in_place, values, tokens, bias.data()),
                        product(Isa::scalar, *matrix, values, tokens, bias.data())));
      }
    }
  }
}

TEST_CASE("matmul: prepared activations are the same bytes on every instruction set", "[matmul]") {
  Random random(5);
  for (const int columns : {1, 31, 32, 33, 64, 75, 160, 576}) {
    const int rows = 9;
    std::vector<float> values = random_values(rows * columns, random);
    for (int k = 0; k < columns; ++k) {
      values[static_cast<std::size_t>(columns + k)] = 0;
      values[static_cast<std::size_t>(2 * columns + k)] *= 1e-38f;
      values[static_cast<std::size_t>(3 * columns + k)] *= 1e37f;
      values[static_cast<std::size_t>(4 * columns + k)] *= 1e-29f;
    }
    values[static_cast<std::size_t>(5 * columns)] = std::nanf("");
    values[static_cast<std::size_t>(6 * columns)] = INFINITY;
    values[static_cast<std::size_t>(7 * columns)] = -INFINITY;
    const Prepared reference(Isa::scalar, values, rows, columns);
    for (const Isa isa : isas()) {
      INFO(isa_name(isa) << " " << columns);
      const Prepared prepared(isa, values, rows, columns);
      // The first half; the second one is for bfloat16, where the instruction set multiplies it.
      CHECK(std::memcmp(prepared.bytes(), reference.bytes(), activation_bytes(rows, columns) / 2) ==
            0);
    }
  }
}

TEST_CASE("matmul: activations that are no numbers give outputs that are none", "[matmul]") {
  Random random(6);
  const int columns = 256, rows = 16;
  for (const DType type : {DType::q4_1, DType::q8_0, DType::q6_k, DType::bf16, DType::f32}) {
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    for (const float bad : {std::nanf(""), INFINITY}) {
      auto values = random_values(2 * columns, random);
      values[40] = bad;
      for (const Isa isa : isas()) {
        INFO(title(type, isa, Compute::automatic));
        const auto matrix = pack(view_of(stored, type, rows, columns), Compute::automatic, isa);
        const auto output = product(isa, *matrix, values, 2);
        for (int r = 0; r < rows; ++r) {
          CHECK_FALSE(std::isfinite(output[static_cast<std::size_t>(r)]));
          CHECK(std::isfinite(output[static_cast<std::size_t>(rows + r)]));  // the other token's
        }
      }
    }
  }
}

TEST_CASE("pack: gathered rows are the dequantised bits", "[matmul]") {
  Random random(7);
  const int rows = 21;
  for (const DType type : kAllTypes) {
    const int columns = columns_of(type);
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    std::vector<float> expected(static_cast<std::size_t>(rows * columns));
    dequantise(type, stored.data(), std::int64_t{rows} * columns, expected.data());
    PackSpec spec;
    spec.gather = true;
    for (const bool in_place : {false, true}) {
      for (const Isa isa : kIsas) {
        const auto matrix =
            pack(view_of(stored, type, rows, columns), Compute::automatic, isa, in_place, spec);
        std::vector<float> gathered(expected.size());
        for (int r = 0; r < rows; ++r) gather_row(*matrix, r, gathered.data() + r * columns);
        INFO(info(type).name << " in place " << in_place << " " << isa_name(isa));
        CHECK(same_bits(gathered, expected));
      }
    }
  }
}

TEST_CASE("pack: rows that the converter reordered per head come back in halves", "[matmul]") {
  const int heads = 3, size = 8, columns = 5;
  std::vector<float> original(static_cast<std::size_t>(heads * size * columns));
  for (std::size_t i = 0; i < original.size(); ++i) original[i] = static_cast<float>(i);
  std::vector<std::byte> stored(original.size() * sizeof(float));
  const std::size_t row_size = columns * sizeof(float);
  for (int h = 0; h < heads; ++h) {
    for (int j = 0; j < 2; ++j) {
      for (int i = 0; i < size / 2; ++i) {
        std::memcpy(stored.data() + static_cast<std::size_t>(h * size + 2 * i + j) * row_size,
                    original.data() + (h * size + j * (size / 2) + i) * columns, row_size);
      }
    }
  }
  PackSpec spec;
  spec.unpermute_heads = heads;
  for (const bool in_place : {false, true}) {
    const auto matrix = pack(view_of(stored, DType::f32, heads * size, columns), Compute::automatic,
                             Isa::scalar, in_place, spec);
    std::vector<float> gathered(original.size());
    for (int r = 0; r < heads * size; ++r) gather_row(*matrix, r, gathered.data() + r * columns);
    CHECK(gathered == original);
    std::vector<float> one(columns, 0.0f);
    one[2] = 1;
    const auto output = product(best_isa(), *matrix, one, 1);
    for (int r = 0; r < heads * size; ++r)
      CHECK(output[static_cast<std::size_t>(r)] ==
            original[static_cast<std::size_t>(r * columns + 2)]);
  }
}

TEST_CASE("pack: shapes that do not fit are refused with both numbers", "[matmul]") {
  const auto pool = make_pool(1);
  std::vector<std::byte> bytes(100);
  PackSpec spec;
  auto partial = pack_matrix(view_of(bytes, DType::q4_k, 2, 100), spec, Compute::automatic, false,
                             Isa::scalar, *pool);
  REQUIRE_FALSE(partial.ok());
  CHECK(partial.status().code() == StatusCode::unsupported);
  CHECK(partial.status().message().find("100") != std::string::npos);
  CHECK(partial.status().message().find("256") != std::string::npos);
  auto shorter = pack_matrix(view_of(bytes, DType::f32, 5, 6), spec, Compute::automatic, false,
                             Isa::scalar, *pool);
  REQUIRE_FALSE(shorter.ok());
  CHECK(shorter.status().code() == StatusCode::internal);
  spec.unpermute_heads = 3;
  auto heads = pack_matrix(view_of(bytes, DType::f32, 5, 5), spec, Compute::automatic, false,
                           Isa::scalar, *pool);
  REQUIRE_FALSE(heads.ok());
  CHECK(heads.status().code() == StatusCode::malformed);
}

}  // namespace quire::cpu
