#include "forward_case.h"
#include "no_hopper.h"

namespace quire::test {
namespace {

double relative_error(const double* exact, const std::uint16_t* output, int size) {
  double difference = 0, norm = 0;
  for (int i = 0; i < size; ++i) {
    const double d = ForwardCase::value(output[i]) - exact[i];
    difference += d * d;
    norm += exact[i] * exact[i];
  }
  const double error = std::sqrt(difference / norm);
  return std::isnan(error) ? 1e9 : error;
}

// Weights and outputs are rounded to bf16: 2^-9 each. With fp8 weights and queries are rounded to
// e4m3: an eighth at most, and queries change the weights.
double largest_error(KvType type) {
  return type == KvType::fp8 ? 0.15 : 1e-2;
}

// Without log_sum_exp only the output.
void check_exact(const ForwardCase& the_case, const std::vector<ForwardPart>& parts,
                 const ForwardResult& result, int samples, std::mt19937_64& random) {
  const ForwardShape& shape = the_case.shape();
  int total_rows = 0;
  for (const ForwardPart& part : parts) total_rows += part.rows;
  int first_row = 0;
  for (const ForwardPart& part : parts) {
    std::uniform_int_distribution<int> any_row(0, part.rows - 1), any_head(0, shape.heads - 1);
    for (int i = 0; i < samples; ++i) {
      const int row = i == 0 ? 0 : i == 1 ? part.rows - 1 : any_row(random);
      const int head = any_head(random);
      double log_sum_exp = 0;
      const std::vector<double> exact = the_case.exact(part, row, head, log_sum_exp);
      const std::size_t place =
          (static_cast<std::size_t>(first_row + row) * shape.heads + head) * shape.head_size;
      CAPTURE(part.first, part.rows, row, head);
      CHECK(relative_error(exact.data(), result.output.data() + place, shape.head_size) <
            largest_error(shape.type));
      if (result.log_sum_exp.empty()) continue;
      const float got =
          result.log_sum_exp[static_cast<std::size_t>(head) * total_rows + first_row + row];
      const double allowed = shape.type == KvType::fp8 ? 0.3 : 1e-3;
      CHECK(std::fabs(got - log_sum_exp) < allowed + 1e-4 * std::fabs(log_sum_exp));
    }
    first_row += part.rows;
  }
}

// All rows and heads against the portable kernels, which round at other places.
void check_portable(const ForwardShape& shape, const std::vector<std::uint16_t>& output,
                    const std::vector<std::uint16_t>& portable) {
  REQUIRE(output.size() == portable.size());
  double largest = 0;
  std::size_t where = 0;
  std::vector<double> exact(shape.head_size);
  for (std::size_t at = 0; at < output.size(); at += shape.head_size) {
    for (int i = 0; i < shape.head_size; ++i) exact[i] = ForwardCase::value(portable[at + i]);
    const double error = relative_error(exact.data(), output.data() + at, shape.head_size);
    if (error > largest) {
      largest = error;
      where = at / shape.head_size;
    }
  }
  CAPTURE(where / shape.heads, where % shape.heads);
  CHECK(largest < 2 * largest_error(shape.type));
}

const int kHeadSizes[] = {64, 96, 128, 192, 256};

struct Kind {
  KvType type;
  int head_size;
};
const Kind kKinds[] = {{KvType::bf16, 64},  {KvType::bf16, 96},  {KvType::bf16, 128},
                       {KvType::bf16, 192}, {KvType::bf16, 256}, {KvType::f16, 64},
                       {KvType::f16, 96},   {KvType::f16, 128},  {KvType::f16, 192},
                       {KvType::f16, 256},  {KvType::fp8, 64},   {KvType::fp8, 128}};

TEST_CASE("Hopper attention says what it takes") {
  std::byte memory[16];
  cuda::PagedAttentionCall call;
  call.kv.base = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory) / 16 * 16);
  call.kv.page_bytes = 1 << 16;
  call.kv.page_size = 16;
  call.kv.kv_heads = 2;
  call.kv.head_size = 128;
  call.heads = 8;
  CHECK(cuda::hopper_attention_takes(90, call));
  CHECK_FALSE(cuda::hopper_attention_takes(80, call));
  CHECK_FALSE(cuda::hopper_attention_takes(100, call));
  call.kv.page_size = 8;
  CHECK_FALSE(cuda::hopper_attention_takes(90, call));
  call.kv.page_size = 64;
  call.kv.head_size = 80;
  CHECK_FALSE(cuda::hopper_attention_takes(90, call));
  CHECK(cuda::hopper_attention(cuda::Launch{}, call).code() == StatusCode::unsupported);
  for (const int head_size : kHeadSizes) {
    for (const KvType type : {KvType::bf16, KvType::f16}) {
      call.kv.head_size = head_size;
      call.kv.type = type;
      CHECK(cuda::hopper_attention_takes(90, call));
    }
    call.kv.type = KvType::fp8;
    CHECK(cuda::hopper_attention_takes(90, call) == (head_size == 64 || head_size == 128));
  }
  call.kv.head_size = 64;
  call.kv.type = KvType::int8;
  CHECK_FALSE(cuda::hopper_attention_takes(90, call));
  call.kv.type = KvType::bf16;
  call.heads = 7;
  CHECK_FALSE(cuda::hopper_attention_takes(90, call));
}

TEST_CASE("Hopper attention of random shapes agrees with float64 and the portable kernels") {
  if (no_hopper()) return;
  const std::uint64_t seed = 20240711;
  for (int round = 0; round < 90; ++round) {
    std::mt19937_64 random(seed + round);
    const auto any = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    ForwardShape shape;
    shape.head_size = kHeadSizes[round % 5];
    shape.type = round / 5 % 3 == 2 ? KvType::f16 : KvType::bf16;
    if (round / 5 % 3 == 1 && shape.head_size % 96 != 0 && shape.head_size < 256) {
      shape.type = KvType::fp8;
    }
    shape.kv_heads = any(1, 3);
    shape.heads = shape.kv_heads * any(1, 4);
    shape.page_size = 16 << any(0, 3);
    shape.window = any(0, 2) == 0 ? any(1, 600) : 0;
    shape.soft_cap = any(0, 3) == 0 ? 20.0f : 0.0f;
    shape.sinks = any(0, 3) == 0;
    std::vector<int> lengths;
    std::vector<ForwardPart> parts;
    const int sequences = any(1, 5);
    for (int i = 0; i < sequences; ++i) {
      const int first = any(0, 1) == 0 ? 0 : any(0, 900);
      const int rows = any(0, 3) == 0 ? any(1, 40) : any(1, 700);
      lengths.push_back(first + rows);
      parts.push_back({i, first, rows});
    }
    CAPTURE(seed, round, static_cast<int>(shape.type), shape.head_size, shape.heads, shape.kv_heads,
            shape.page_size, shape.window, shape.soft_cap, shape.sinks, sequences);
    const ForwardCase the_case(shape, lengths, seed + round);
    ForwardCase::Call call(the_case, parts);
    const ForwardResult result = call.hopper();
    check_exact(the_case, parts, result, 6, random);
    check_portable(shape, result.output, call.portable());
  }
}

TEST_CASE("Hopper attention without causality sees all keys") {
  if (no_hopper()) return;
  std::mt19937_64 random(5);
  for (const int head_size : kHeadSizes) {
    ForwardShape shape;
    shape.head_size = head_size;
    shape.causal = false;
    CAPTURE(head_size);
    const ForwardCase the_case(shape, {700, 256, 33}, 5);
    const std::vector<ForwardPart> parts = {{0, 0, 700}, {1, 0, 256}, {2, 0, 33}};
    ForwardCase::Call call(the_case, parts);
    check_exact(the_case, parts, call.hopper(), 12, random);
  }
}

TEST_CASE("Hopper attention of long prompts agrees with the portable kernels") {
  if (no_hopper()) return;
  for (const int head_size : {64, 96, 128}) {
    ForwardShape shape;
    shape.head_size = head_size;
    shape.type = head_size == 96 ? KvType::f16 : KvType::bf16;
    shape.heads = 8;
    const ForwardCase the_case(shape, {6000, 2048, 3001}, 7);
    const std::vector<ForwardPart> parts = {{0, 0, 6000}, {1, 1024, 1024}, {2, 0, 3001}};
    ForwardCase::Call call(the_case, parts);
    const ForwardResult result = call.hopper();
    std::mt19937_64 random(7);
    CAPTURE(head_size);
    check_exact(the_case, parts, result, 8, random);
    check_portable(shape, result.output, call.portable());
  }
}

TEST_CASE("A row's bits in Hopper attention depend neither on chunks, neighbours nor pages") {
  if (no_hopper()) return;
  for (const int window : {0, 300}) {
    for (const auto& [type, head_size] : kKinds) {
      if (type == (window > 0 ? KvType::bf16 : KvType::f16)) continue;
      ForwardShape shape;
      shape.head_size = head_size;
      shape.window = window;
      shape.type = type;
      const std::vector<int> lengths = {1100, 517};
      const ForwardCase whole_case(shape, lengths, 11);
      ForwardCase::Call whole(whole_case, {{0, 0, 1100}, {1, 0, 517}});
      const ForwardResult expected = whole.hopper();
      const std::size_t row_size = static_cast<std::size_t>(shape.heads) * head_size;
      for (const int page_size : {16, 32, 64}) {
        shape.page_size = page_size;
        const ForwardCase cut_case(shape, lengths, 11);
        std::vector<std::uint16_t> joined;
        for (int first = 0; first < 1100; first += 200 + 37) {
          const int rows = std::min(237, 1100 - first);
          ForwardCase::Call cut(cut_case, {{0, first, rows}});
          const ForwardResult part = cut.hopper();
          joined.insert(joined.end(), part.output.begin(), part.output.end());
        }
        CAPTURE(window, static_cast<int>(shape.type), shape.head_size, page_size);
        CHECK(std::equal(joined.begin(), joined.end(), expected.output.begin()));
        CHECK(joined.size() == 1100 * row_size);
      }
    }
  }
}

TEST_CASE("Hopper attention gives the same bits every time") {
  if (no_hopper()) return;
  for (const auto& [type, head_size] : kKinds) {
    ForwardShape shape;
    shape.head_size = head_size;
    shape.heads = 16;
    shape.kv_heads = 4;
    shape.page_size = 16;
    shape.type = type;
    const ForwardCase the_case(shape, {2000, 130, 777, 1}, 13);
    ForwardCase::Call call(the_case, {{0, 0, 2000}, {1, 0, 130}, {2, 500, 277}, {3, 0, 1}});
    const ForwardResult first = call.hopper();
    for (int i = 0; i < 100; ++i) {
      call.poison_results();
      call.launch();
      const ForwardResult again = call.results();
      CAPTURE(static_cast<int>(shape.type), shape.head_size, i);
      REQUIRE(again.output == first.output);
      REQUIRE(again.log_sum_exp == first.log_sum_exp);
    }
  }
}

TEST_CASE("A list of tiles serves many calls of Hopper attention") {
  if (no_hopper()) return;
  for (const float cap : {0.0f, 30.0f}) {
    ForwardShape shape;
    shape.head_size = 64;
    shape.soft_cap = cap;
    const ForwardCase the_case(shape, {1500, 300}, 19);
    ForwardCase::Call call(the_case, {{0, 0, 1500}, {1, 100, 200}});
    const ForwardResult expected = call.hopper();
    DeviceMemory<std::byte> tiles(call.tiles_bytes() + 256);
    call.list(tiles.get());
    for (int i = 0; i < 3; ++i) {
      call.poison();
      call.launch(tiles.get());
      const ForwardResult result = call.read();
      CAPTURE(cap, i);
      CHECK(result.output == expected.output);
    }
    const std::vector<std::byte> bytes = tiles.read();
    CHECK(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(call.tiles_bytes()), bytes.end(),
                      [](std::byte b) { return b == std::byte{0xff}; }));
  }
}

TEST_CASE("Long sequences of a pass go to the Hopper kernels and short ones to the portable") {
  if (no_hopper()) return;
  std::mt19937_64 random(23);
  for (const int head_size : kHeadSizes) {
    for (const int window : {0, 200}) {
      ForwardShape shape;
      shape.head_size = head_size;
      shape.heads = 32;
      shape.kv_heads = 8;
      shape.window = window;
      const std::vector<int> lengths = {900, 700, 650, 333, 120, 64, 1};
      const ForwardCase the_case(shape, lengths, 23);
      const std::vector<std::vector<ForwardPart>> passes = {
          {{0, 0, 900},
           {1, 699, 1},
           {2, 300, 350},
           {3, 332, 1},
           {4, 57, 63},
           {5, 0, 64},
           {6, 0, 1}},
          {{0, 0, 900}},
          {{0, 899, 1}, {1, 699, 1}, {2, 649, 1}},
      };
      for (const auto& parts : passes) {
        ForwardCase::Call call(the_case, parts);
        const std::vector<std::uint16_t> output = call.chosen(false);
        CAPTURE(head_size, window, parts.size());
        check_exact(the_case, parts, {output, {}}, 5, random);
        check_portable(shape, output, call.portable());
        CHECK(call.chosen(true) == output);
      }
    }
  }
}

TEST_CASE("The Hopper kernels get what pays") {
  cuda::Launch launch;
  launch.multiprocessors = 132;
  launch.compute_capability = 90;
  cuda::PagedAttentionCall call;
  call.kv.page_bytes = 1 << 16;
  call.kv.page_size = 16;
  call.kv.kv_heads = 8;
  call.kv.head_size = 128;
  call.heads = 32;
  const auto share = [&](int count, int total_rows, int max_rows) {
    call.sequences.count = count;
    call.sequences.total_rows = total_rows;
    call.sequences.max_rows = max_rows;
    return cuda::hopper_share(launch, call);
  };
  CHECK(share(1, 2048, 2048).all);
  CHECK(share(4, 2048, 512).all);
  CHECK(share(32, 32, 1).least_rows == 0);
  CHECK(share(1, 128, 128).least_rows == 0);  // 32 tiles for 132 multiprocessors
  CHECK(share(33, 2080, 2048).least_rows == 64);
  CHECK_FALSE(share(33, 2080, 2048).all);
  launch.deterministic = true;
  CHECK(share(1, 2048, 2048).least_rows == 0);
  launch.deterministic = false;
  launch.compute_capability = 80;
  CHECK(share(1, 2048, 2048).least_rows == 0);
}

TEST_CASE("Hopper attention runs from a graph") {
  if (no_hopper()) return;
  ForwardShape shape;
  const ForwardCase the_case(shape, {900, 300}, 17);
  ForwardCase::Call call(the_case, {{0, 0, 900}, {1, 100, 200}});
  const ForwardResult expected = call.hopper();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamBeginCapture(call.stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  call.launch();
  REQUIRE(cudaStreamEndCapture(call.stream(), &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    call.poison();
    REQUIRE(cudaGraphLaunch(executable, call.stream()) == cudaSuccess);
    const ForwardResult result = call.read();
    CHECK(result.output == expected.output);
    CHECK(result.log_sum_exp == expected.log_sum_exp);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace quire::test
