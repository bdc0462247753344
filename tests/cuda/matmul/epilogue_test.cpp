#include <cmath>

#include "matmul/gate_parts.h"
#include "product_fixture.h"

namespace quire::test {
namespace {

constexpr std::uint64_t kSeed = 77;
constexpr int kTokenCounts[] = {1, 5, 16, 30, 64, 100};

float bfloat(const __nv_bfloat16& value) {
  std::uint16_t bits;
  std::memcpy(&bits, &value, 2);
  return bfloat16_to_float(bits);
}

std::vector<float> random_values(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_CASE("Q, K and V of different types stand side by side, with their biases") {
  if (!has_gpu()) return;
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t columns = 768, widths[3] = {144, 40, 40}, stride = 224;
  const StoredMatrix stored[3] = {random_matrix(DType::q4_k, widths[0], columns, random),
                                  random_matrix(DType::q4_k, widths[1], columns, random),
                                  random_matrix(DType::q6_k, widths[2], columns, random)};
  std::unique_ptr<PackedMatrix> packed[3];
  std::vector<float> biases[3];
  std::vector<DeviceMemory<float>> device_biases;
  for (int i = 0; i < 3; ++i) {
    packed[i] = fixture.pack(stored[i]);
    biases[i] = random_values(static_cast<std::size_t>(widths[i]), random);
    device_biases.emplace_back(biases[i]);
  }
  for (const int tokens : kTokenCounts) {
    const Input input(tokens, columns, random);
    const DeviceMemory<__nv_bfloat16> out(static_cast<std::size_t>(tokens * stride));
    cuda::ProductCall call;
    call.rows = tokens;
    call.input = input.device.get();
    call.matrices = 3;
    for (int i = 0; i < 3; ++i) {
      call.weights[i] = packed[i].get();
      call.bias[i] = device_biases[static_cast<std::size_t>(i)].get();
    }
    call.epilogue = cuda::Epilogue::store_bfloat16;
    call.out_bfloat16 = out.get();
    call.out_stride = stride;
    fixture.run(call);
    const auto result = out.read();
    int wrong = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::int64_t at = t * stride;
      for (int i = 0; i < 3; ++i) {
        for (std::int64_t r = 0; r < widths[i]; ++r, ++at) {
          const double exact =
              exact_product(stored[i], r, input, t) + biases[i][static_cast<std::size_t>(r)];
          const double allowed =
              allowed_error(stored[i], r, input.values, t) + std::abs(exact) * 0x1p-8;
          wrong += !(std::abs(bfloat(result[static_cast<std::size_t>(at)]) - exact) <= allowed);
        }
      }
    }
    INFO(tokens << " tokens");
    CHECK(wrong == 0);
  }
}

void check_residual(DType type) {
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t rows = 130, columns = 1024;
  const StoredMatrix stored = random_matrix(type, rows, columns, random);
  const auto packed = fixture.pack(stored);
  const std::vector<float> bias = random_values(static_cast<std::size_t>(rows), random);
  const DeviceMemory<float> device_bias(bias);
  for (const int tokens : kTokenCounts) {
    const Input input(tokens, columns, random);
    const std::vector<float> before =
        random_values(static_cast<std::size_t>(tokens * rows), random);
    const DeviceMemory<float> out(before);
    cuda::ProductCall call;
    call.rows = tokens;
    call.input = input.device.get();
    call.weights[0] = packed.get();
    call.bias[0] = device_bias.get();
    call.epilogue = cuda::Epilogue::add_residual;
    call.residual_scale = 0.5f;
    call.out_float = out.get();
    call.out_stride = rows;
    fixture.run(call);
    const std::vector<float> result = out.read();
    int wrong = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto at = static_cast<std::size_t>(t * rows + r);
        const double exact = before[at] + 0.5 * (exact_product(stored, r, input, t) +
                                                 bias[static_cast<std::size_t>(r)]);
        wrong += !(std::abs(result[at] - exact) <= allowed_error(stored, r, input.values, t));
      }
    }
    INFO(info(type).name << ", " << tokens << " tokens");
    CHECK(wrong == 0);
  }
}

TEST_CASE("a product is added to the residual") {
  if (!has_gpu()) return;
  check_residual(DType::q5_k);
  check_residual(DType::bf16);
}

double gate(cuda::Epilogue epilogue, double x) {
  if (epilogue == cuda::Epilogue::gated_silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
}

// Matrices of one shape, and what their gated product must be.
struct GatedPair {
  StoredMatrix gates, ups;
  std::unique_ptr<PackedMatrix> packed_gates, packed_ups;

  GatedPair(const ProductFixture& fixture, DType gate_type, DType up_type, std::int64_t rows,
            std::int64_t columns, std::mt19937_64& random)
      : gates(random_matrix(gate_type, rows, columns, random)),
        ups(random_matrix(up_type, rows, columns, random)),
        packed_gates(fixture.pack(gates)),
        packed_ups(fixture.pack(ups)) {}

  cuda::ProductCall call(const Input& input, int tokens, cuda::Epilogue epilogue) const {
    cuda::ProductCall call;
    call.rows = tokens;
    call.input = input.device.get();
    call.matrices = 2;
    call.weights[0] = packed_gates.get();
    call.weights[1] = packed_ups.get();
    call.epilogue = epilogue;
    return call;
  }

  // `result` [tokens][stride]; gate and up may have been rounded to bfloat16 before.
  int count_wrong(const std::vector<__nv_bfloat16>& result, std::int64_t stride, const Input& input,
                  int tokens, cuda::Epilogue epilogue, bool rounded) const {
    int wrong = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t r = 0; r < gates.rows; ++r) {
        const double x = exact_product(gates, r, input, t), up = exact_product(ups, r, input, t);
        const double exact = gate(epilogue, x) * up;
        const double rounding = rounded ? 0x1p-8 : 0;
        const double allowed =
            1.2 * std::abs(up) *
                (allowed_error(gates, r, input.values, t) + rounding * std::abs(x)) +
            (std::abs(x) + 0.2) *
                (allowed_error(ups, r, input.values, t) + rounding * std::abs(up)) +
            std::abs(exact) * 0x1p-8 + 1e-4;
        const double got = bfloat(result[static_cast<std::size_t>(t * stride + r)]);
        wrong += !(std::abs(got - exact) <= allowed);
      }
    }
    return wrong;
  }
};

void check_gate(DType gate_type, DType up_type, cuda::Epilogue epilogue) {
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t rows = 203, columns = 512;
  const GatedPair pair(fixture, gate_type, up_type, rows, columns, random);
  for (const int tokens : kTokenCounts) {
    const Input input(tokens, columns, random);
    const DeviceMemory<__nv_bfloat16> out(static_cast<std::size_t>(tokens * rows));
    cuda::ProductCall call = pair.call(input, tokens, epilogue);
    call.out_bfloat16 = out.get();
    call.out_stride = rows;
    fixture.run(call);
    INFO(info(gate_type).name << " and " << info(up_type).name << ", " << tokens << " tokens");
    CHECK(pair.count_wrong(out.read(), rows, input, tokens, epilogue, false) == 0);
  }
}

TEST_CASE("gate and up are one product, also of different types") {
  if (!has_gpu()) return;
  check_gate(DType::q4_k, DType::q4_k, cuda::Epilogue::gated_silu);
  check_gate(DType::bf16, DType::bf16, cuda::Epilogue::gated_gelu_tanh);
  check_gate(DType::iq4_nl, DType::mxfp4, cuda::Epilogue::gated_silu);
  check_gate(DType::q4_0, DType::q8_0, cuda::Epilogue::gated_gelu_tanh);
}

TEST_CASE("gate and up one after the other, a few rows at a time, leave no row out") {
  if (!has_gpu()) return;
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t rows = 208, columns = 512, stride = 216;
  const auto epilogue = cuda::Epilogue::gated_silu;
  const GatedPair pair(fixture, DType::bf16, DType::q4_0, rows, columns, random);
  for (const int tokens : {1, 100, 257, 300, 601}) {
    const Input input(tokens, columns, random);
    const DeviceMemory<std::byte> workspace(
        std::vector<std::byte>(cuda::product_workspace_bytes(1024, 8192)));
    for (const int fit : {100, 270, 601}) {
      const DeviceMemory<float> memory(static_cast<std::size_t>(fit * rows * 2));
      cuda::GateMemory narrow{reinterpret_cast<std::byte*>(memory.get()),
                              static_cast<std::size_t>(fit * rows * 2)};
      cuda::GateMemory wide{narrow.data, narrow.bytes * 4};
      for (const bool in_place : {true, false}) {
        const DeviceMemory<__nv_bfloat16> out(static_cast<std::size_t>(tokens * stride));
        cuda::ProductCall call = pair.call(input, tokens, epilogue);
        call.out_bfloat16 = out.get();
        call.out_stride = stride;
        call.workspace = workspace.get();
        call.workspace_bytes = workspace.size();
        const Status status = in_place ? cuda::gate_in_place(fixture.launch, call, narrow)
                                       : cuda::gate_apart(fixture.launch, call, wide);
        REQUIRE(status.ok());
        INFO(tokens << " tokens, memory for " << fit << (in_place ? ", in place" : ""));
        CHECK(pair.count_wrong(out.read(), stride, input, tokens, epilogue, in_place) == 0);
      }
    }
  }
}

void check_range(DType type) {
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t rows = 1000, columns = 256, first = 333, count = 400, stride = 403;
  const StoredMatrix stored = random_matrix(type, rows, columns, random);
  const auto packed = fixture.pack(stored);
  for (const int tokens : kTokenCounts) {
    const Input input(tokens, columns, random);
    const DeviceMemory<float> out(static_cast<std::size_t>(tokens * stride));
    cuda::ProductCall call;
    call.rows = tokens;
    call.input = input.device.get();
    call.weights[0] = packed.get();
    call.out_float = out.get();
    call.out_stride = stride;
    call.first = first;
    call.count = count;
    fixture.run(call);
    const std::vector<float> result = out.read();
    int wrong = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t r = 0; r < stride; ++r) {
        const float y = result[static_cast<std::size_t>(t * stride + r)];
        if (r >= count) {
          wrong += !std::isnan(y);
        } else {
          wrong += !(std::abs(y - exact_product(stored, first + r, input, t)) <=
                     allowed_error(stored, first + r, input.values, t));
        }
      }
    }
    INFO(info(type).name << ", " << tokens << " tokens");
    CHECK(wrong == 0);
  }
}

TEST_CASE("a range of a matrix's outputs starts in column 0") {
  if (!has_gpu()) return;
  check_range(DType::q8_0);
  check_range(DType::bf16);
}

void check_repeats(DType type) {
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  const std::int64_t rows = 96, columns = 14336;
  const StoredMatrix stored = random_matrix(type, rows, columns, random);
  const auto packed = fixture.pack(stored);
  const Input input(16, columns, random);
  const DeviceMemory<float> out(static_cast<std::size_t>(16 * rows));
  cuda::ProductCall call;
  call.rows = 16;
  call.input = input.device.get();
  call.weights[0] = packed.get();
  call.out_float = out.get();
  call.out_stride = rows;
  fixture.run(call);
  const std::vector<float> once = out.read();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  REQUIRE(cudaStreamBeginCapture(fixture.launch.stream, cudaStreamCaptureModeThreadLocal) ==
          cudaSuccess);
  for (int i = 0; i < 3; ++i) fixture.run(call);
  REQUIRE(cudaStreamEndCapture(fixture.launch.stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(cudaMemset(out.get(), 0xff, out.size() * 4) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(ready, fixture.launch.stream) == cudaSuccess);
    const std::vector<float> again = out.read();
    CHECK(std::memcmp(again.data(), once.data(), once.size() * 4) == 0);
  }
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
}

TEST_CASE("products that a graph repeats give the same bits") {
  if (!has_gpu()) return;
  check_repeats(DType::q4_k);
  check_repeats(DType::bf16);
}

TEST_CASE("gathered rows are the host's, bit for bit, for every type") {
  if (!has_gpu()) return;
  std::mt19937_64 random(kSeed);
  const ProductFixture fixture;
  for (const DType type : kWeightTypes) {
    const std::int64_t rows = 41, columns = info(type).block == 1 ? 77 : 768;
    const StoredMatrix stored = random_matrix(type, rows, columns, random);
    PackSpec spec;
    spec.gather = true;
    const auto packed = fixture.pack(stored, spec);
    const std::vector<std::int32_t> tokens = {3, 40, 0, 3, -1, 41};
    const DeviceMemory<std::int32_t> device_tokens(tokens);
    const DeviceMemory<float> out(tokens.size() * static_cast<std::size_t>(columns));
    const Status status = cuda::gather_rows(fixture.launch, *packed, device_tokens.get(),
                                            static_cast<int>(tokens.size()), 1.5f, out.get());
    REQUIRE(status.ok());
    const std::vector<float> result = out.read();
    int wrong = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        const bool inside = tokens[i] >= 0 && tokens[i] < rows;
        const float expected =
            inside ? stored.values[static_cast<std::size_t>(tokens[i] * columns + k)] * 1.5f : 0.0f;
        wrong += std::memcmp(
                     &result[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(k)],
                     &expected, 4) != 0;
      }
    }
    INFO(info(type).name);
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace quire::test
