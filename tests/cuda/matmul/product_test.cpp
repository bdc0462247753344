#include <cmath>

#include "product_fixture.h"

namespace quire::test {
namespace {

constexpr std::uint64_t kSeed = 20251;

// Columns of whole blocks, and odd where the type allows it.
std::int64_t some_columns(DType type, int size) {
  const int block = info(type).block;
  if (block == 1) return size == 0 ? 71 : 1352;
  return block == 32 ? (size == 0 ? 160 : 1312) : (size == 0 ? 256 : 1280);
}

void check_products(DType type, std::int64_t rows, std::int64_t columns,
                    std::initializer_list<int> token_counts, bool deterministic,
                    std::unique_ptr<cuda::LibraryProducts> library = nullptr) {
  std::mt19937_64 random(kSeed);
  ProductFixture fixture(deterministic);
  fixture.library = std::move(library);
  const StoredMatrix matrix = random_matrix(type, rows, columns, random);
  const auto packed = fixture.pack(matrix);
  for (const int tokens : token_counts) {
    const Input input(tokens, columns, random);
    const std::int64_t stride = (rows + 8) / 8 * 8;
    const DeviceMemory<float> out(static_cast<std::size_t>(tokens * stride));
    cuda::ProductCall call;
    call.rows = tokens;
    call.input = input.device.get();
    call.weights[0] = packed.get();
    call.out_float = out.get();
    call.out_stride = stride;
    fixture.run(call);
    const std::vector<float> result = out.read();
    int wrong = 0;
    double worst = 0, errors = 0, squares = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t r = 0; r < stride; ++r) {
        const float y = result[static_cast<std::size_t>(t * stride + r)];
        if (r >= rows) {
          wrong += !std::isnan(y);
          continue;
        }
        const double exact = exact_product(matrix, r, input, t);
        const double error = std::abs(y - exact);
        const double share = error / allowed_error(matrix, r, input.values, t);
        wrong += !(share <= 1);
        worst = std::max(worst, share);
        errors += error * error;
        squares += exact * exact;
      }
    }
    INFO(info(type).name << ", " << tokens << " x " << rows << " x " << columns << ", seed "
                         << kSeed << ", worst share of the allowed error " << worst);
    CHECK(wrong == 0);
    CHECK(std::sqrt(errors / squares) < 0.008);
  }
}

TEST_CASE("products with few tokens are those of the host's weights, for every type") {
  if (!has_gpu()) return;
  for (const DType type : kWeightTypes) {
    check_products(type, 37, some_columns(type, 0), {1, 2, 3, 8, 16, 17, 64, 129}, false);
    check_products(type, 1027, some_columns(type, 1), {1, 7, 9, 33}, false);
  }
}

TEST_CASE("products with many tokens are those of the host's weights, for every type") {
  if (!has_gpu()) return;
  for (const DType type : kWeightTypes) {
    check_products(type, 83, some_columns(type, 1), {64, 129, 512}, false);
    check_products(type, 83, some_columns(type, 1), {3, 20, 129}, true);
  }
}

TEST_CASE("products by the library are those of the host's weights, for every type") {
  if (!has_gpu()) return;
  if (cuda::LibraryProducts::open() == nullptr) {
    WARN("skipped: no cuBLASLt");
    return;
  }
  for (const DType type : kWeightTypes) {
    check_products(type, 83, some_columns(type, 1), {64, 400}, false,
                   cuda::LibraryProducts::open());
  }
}

TEST_CASE("a matrix has more rows than the thread blocks of a launch take at once") {
  if (!has_gpu()) return;
  check_products(DType::bf16, 36000, 136, {13, 40}, false);
}

TEST_CASE("long rows are cut into slices for several thread blocks") {
  if (!has_gpu()) return;
  for (const DType type : {DType::bf16, DType::q8_0, DType::q4_k, DType::q6_k, DType::f32}) {
    for (const bool deterministic : {false, true}) {
      check_products(type, 45, 14336, {1, 8, 16, 40, 64}, deterministic);
    }
  }
}

TEST_CASE("a row's bits do not depend on how many rows there are in deterministic mode") {
  if (!has_gpu()) return;
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture(true);
  const struct {
    DType type;
    std::int64_t rows, columns;
  } cases[] = {{DType::bf16, 500, 4096}, {DType::bf16, 96, 14336}, {DType::q4_k, 500, 4096},
               {DType::q4_k, 96, 14336}, {DType::q6_k, 500, 2048}, {DType::q8_0, 500, 576},
               {DType::f32, 77, 200},    {DType::q4_0, 4160, 1024}};
  for (const auto& [type, rows, columns] : cases) {
    const StoredMatrix matrix = random_matrix(type, rows, columns, random);
    const auto packed = fixture.pack(matrix);
    const int most = 300;
    const Input input(most, columns, random);
    const auto run = [&](int tokens, int first) {
      const DeviceMemory<float> out(static_cast<std::size_t>(tokens * rows));
      cuda::ProductCall call;
      call.rows = tokens;
      call.input = input.device.get() + first * columns;
      call.weights[0] = packed.get();
      call.out_float = out.get();
      call.out_stride = rows;
      fixture.run(call);
      return out.read();
    };
    std::vector<float> alone;
    for (int t = 0; t < most; ++t) {
      const std::vector<float> row = run(1, t);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (int tokens = 2; tokens <= most; tokens += tokens < 65 ? 1 : 47) {
      const std::vector<float> together = run(tokens, 0);
      INFO(info(type).name << ", " << tokens << " x " << rows << " x " << columns);
      CHECK(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("rows of Q and K are put back into the order of half rotations") {
  if (!has_gpu()) return;
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t rows = 48, columns = 128, heads = 3, size = rows / heads;
  const StoredMatrix matrix = random_matrix(DType::q8_0, rows, columns, random);
  PackSpec spec;
  spec.unpermute_heads = static_cast<int>(heads);
  const auto packed = fixture.pack(matrix, spec);
  const Input input(1, columns, random);
  const DeviceMemory<float> out(static_cast<std::size_t>(rows));
  cuda::ProductCall call;
  call.rows = 1;
  call.input = input.device.get();
  call.weights[0] = packed.get();
  call.out_float = out.get();
  call.out_stride = rows;
  fixture.run(call);
  const std::vector<float> result = out.read();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t within = r % size;
    const std::int64_t stored = r / size * size + 2 * (within % (size / 2)) + within / (size / 2);
    CHECK(std::abs(result[static_cast<std::size_t>(r)] - exact_product(matrix, stored, input, 0)) <=
          allowed_error(matrix, stored, input.values, 0));
  }
}

}  // namespace
}  // namespace quire::test
