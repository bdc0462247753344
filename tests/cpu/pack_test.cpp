#include "cpu/pack.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/matmul_fixture.h"

namespace quire::cpu {

using namespace test;

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
