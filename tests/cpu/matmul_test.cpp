#include "cpu/matmul.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/matmul_fixture.h"
#include "emulated.h"

// One conformance suite for the matrix kernels of every instruction set.

namespace quire::cpu {

using namespace test;

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

TEST_CASE("matmul: rounding Gaussian activations to 8 bits costs at most 0.8 % of the outputs",
          "[matmul]") {
  Random random(10);
  const int tokens = 4, rows = 64, columns = 4096;
  const auto values = random_values(tokens * columns, random);
  for (const DType type : kAllTypes) {
    if (!is_quantised(type)) continue;
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    const auto exact =
        product(best_isa(), *pack(view_of(stored, type, rows, columns), Compute::f32, best_isa()),
                values, tokens);
    for (const Isa isa : isas()) {
      const auto matrix = pack(view_of(stored, type, rows, columns), Compute::automatic, isa);
      const auto output = product(isa, *matrix, values, tokens);
      double error = 0, size = 0;
      for (std::size_t i = 0; i < output.size(); ++i) {
        error += std::pow(double{output[i]} - exact[i], 2);
        size += std::pow(double{exact[i]}, 2);
      }
      INFO(title(type, isa, Compute::automatic) << ": " << std::sqrt(error / size));
      CHECK(std::sqrt(error / size) <= 0.008);
      CHECK(error > 0);
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
        const int last = testing::kEmulated ? 17 : most - 1;          // several tiles of 4 at least
        for (int tokens = 1; tokens <= last; ++tokens) {
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

TEST_CASE("matmul: same bits for rows that are longer than a strip", "[matmul]") {
  Random random(9);
  const int tokens = testing::kEmulated ? 17 : 29;  // more than the weights are streamed for
  const int rows = 34, columns = 12544;             // strips of no type are that long
  const auto check = [&](DType type, Compute compute) {
    const auto stored = stored_matrix(type, rows, columns, Fill::random, random);
    const auto values = random_values(tokens * columns, random);
    const auto bias = random_values(rows, random);
    for (const Isa isa : isas()) {
      if (isa == Isa::scalar) continue;
      INFO(title(type, isa, compute));
      const auto matrix = pack(view_of(stored, type, rows, columns), compute, isa);
      CHECK(same_bits(product(isa, *matrix, values, tokens, bias.data()),
                      product(Isa::scalar, *matrix, values, tokens, bias.data())));
    }
  };
  for (const DType type :
       {DType::q4_0, DType::q8_0, DType::q2_k, DType::q4_k, DType::f32, DType::f16, DType::bf16}) {
    check(type, Compute::automatic);
  }
  check(DType::q5_k, Compute::f32);
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

}  // namespace quire::cpu
