#include "attention/paged_attention.h"

#include "paged_errors.h"

namespace quire::test {
namespace {

void check_case(const CaseShape& shape, const std::vector<int>& lengths,
                const std::vector<Part>& parts, std::uint64_t seed) {
  CAPTURE(static_cast<int>(shape.type), shape.page_size, shape.heads, shape.kv_heads,
          shape.head_size, shape.window, shape.soft_cap, shape.sinks, seed);
  PagedCase the_case(shape, lengths, seed);
  for (const int capability : {0, testing::compute_capability()}) {
    CAPTURE(capability);
    the_case.set_compute_capability(capability);
    // Long prompts in fp8 may go to kernels whose bounds are others.
    const bool fp8 = capability >= 90 && shape.type == KvType::fp8;
    the_case.set_deterministic(seed % 2 == 0 || fp8);
    const std::vector<std::uint16_t> output = the_case.attend(parts);
    const Errors errors = errors_of(the_case, parts, output);
    CHECK(errors.largest < 0.02);
    CHECK(errors.mean < 0.004);
  }
}

const KvType kTypes[] = {KvType::bf16, KvType::f16, KvType::int8, KvType::fp8};
const int kHeadSizes[] = {16, 24, 32, 64, 80, 96, 128, 192, 256};
const int kPageSizes[] = {8, 16, 32, 64, 128};

int page_size_for(KvType type, int index) {
  return std::max(kPageSizes[index], type == KvType::fp8 ? 16 : 8);
}

TEST_CASE("every head size and KV type agrees with float64, decode and prompt in one call") {
  if (!has_gpu()) return;
  std::uint64_t seed = 1;
  for (const KvType type : kTypes) {
    for (const int head_size : kHeadSizes) {
      CaseShape shape;
      shape.type = type;
      shape.head_size = head_size;
      shape.page_size = page_size_for(type, seed % 5);
      shape.heads = 8;
      shape.kv_heads = 2;
      check_case(shape, {70, 201, 530, 1}, {{0, 0, 70}, {1, 200, 1}, {2, 450, 80}, {3, 0, 1}},
                 seed++);
    }
  }
}

TEST_CASE("windows, soft caps, sinks, head groups and pages in random mixtures") {
  if (!has_gpu()) return;
  for (std::uint64_t seed = 100; seed < 164; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    CaseShape shape;
    shape.type = kTypes[below(4)];
    shape.head_size = kHeadSizes[below(9)];
    shape.page_size = page_size_for(shape.type, below(5));
    shape.kv_heads = 1 + below(3);
    const int groups[] = {1, 2, 3, 4, 7, 8, 16, 17};
    shape.heads = shape.kv_heads * groups[below(shape.kv_heads > 1 ? 6 : 8)];
    const int windows[] = {0, 0, 1, 5, 64, 100, 513};
    shape.window = windows[below(7)];
    shape.soft_cap = below(3) == 0 ? 5.0f : 0.0f;
    shape.sinks = below(3) == 0;
    std::vector<int> lengths;
    std::vector<Part> parts;
    const int sequences = 1 + below(5);
    for (int i = 0; i < sequences; ++i) {
      const int before = below(2) == 0 ? 0 : below(below(4) == 0 ? 1800 : 300);
      const int rows = below(2) == 0 ? 1 : 1 + below(below(3) == 0 ? 150 : 20);
      lengths.push_back(before + rows);
      parts.push_back({i, before, rows});
    }
    check_case(shape, lengths, parts, seed);
  }
}

TEST_CASE("long contexts are split, and many short ones are not, with the same result") {
  if (!has_gpu()) return;
  CaseShape shape;
  shape.heads = 8;
  shape.kv_heads = 2;
  shape.head_size = 128;
  check_case(shape, {9000}, {{0, 8999, 1}}, 7);
  check_case(shape, {5064}, {{0, 5000, 64}}, 8);
  shape.window = 1000;
  check_case(shape, {5064}, {{0, 5000, 64}}, 9);
  // More tiles than thread blocks at once, so that one goes through several splits.
  shape.window = 0;
  shape.heads = 64;
  shape.kv_heads = 4;
  shape.head_size = 16;
  check_case(shape, {3000}, {{0, 0, 3000}}, 10);
  check_case(shape, {3000}, {{0, 0, 3000}}, 11);
}

std::vector<std::uint16_t> rows_of(const std::vector<std::uint16_t>& output, int first, int rows,
                                   const CaseShape& shape) {
  const std::size_t size = static_cast<std::size_t>(shape.heads) * shape.head_size;
  return {output.begin() + first * size, output.begin() + (first + rows) * size};
}

TEST_CASE("a row's bits do not depend on chunks, neighbours or the order of pages") {
  if (!has_gpu()) return;
  struct Variant {
    KvType type;
    int head_size, heads, window;
    float soft_cap;
  };
  const Variant variants[] = {
      {KvType::bf16, 64, 4, 0, 0},   {KvType::bf16, 128, 8, 0, 0},   {KvType::f16, 80, 3, 700, 0},
      {KvType::int8, 128, 4, 0, 30}, {KvType::bf16, 256, 2, 600, 0}, {KvType::int8, 24, 16, 0, 0},
      {KvType::f16, 192, 1, 0, 0},   {KvType::bf16, 96, 7, 0, 0},    {KvType::fp8, 128, 4, 0, 0},
      {KvType::fp8, 80, 3, 700, 0},  {KvType::fp8, 24, 4, 0, 30},
  };
  for (const Variant& variant : variants) {
    CaseShape shape;
    shape.type = variant.type;
    shape.head_size = variant.head_size;
    shape.heads = variant.heads;
    shape.window = variant.window;
    shape.soft_cap = variant.soft_cap;
    shape.sinks = shape.heads != 8;
    CAPTURE(static_cast<int>(shape.type), shape.head_size, shape.heads, shape.window);
    const int length = 1700;
    PagedCase the_case(shape, {length, 3000, 40}, 11);
    the_case.set_deterministic(true);
    const std::vector<std::uint16_t> whole = the_case.attend({{0, 0, length}});
    CHECK(difference(the_case.attend({{0, 0, length}}), whole) == "");
    // Whichever kernels compute them.
    for (const int capability : {0, testing::compute_capability()}) {
      CAPTURE(capability);
      the_case.set_compute_capability(capability);
      int first = 0;
      for (const int rows : {1, 5, 17, 64, 300, 129, 700, 3, 481}) {
        // In turn alone and beside a long decode and a short prompt.
        std::vector<Part> parts = {{0, first, rows}};
        if (rows % 2 == 0) parts.insert(parts.end(), {{1, 2999, 1}, {2, 0, 40}});
        const auto output = the_case.attend(parts);
        CAPTURE(first, rows);
        CHECK(difference(rows_of(output, 0, rows, shape), rows_of(whole, first, rows, shape)) ==
              "");
        first += rows;
      }
      CHECK(first == length);
      for (const int row : {0, 63, 64, 511, 512, 513, 1023, 1024, 1300, 1699}) {
        CAPTURE(row);
        CHECK(difference(the_case.attend({{0, row, 1}}), rows_of(whole, row, 1, shape)) == "");
      }
      // So many sequences that none is split.
      const std::vector<Part> many(3000 / shape.heads, Part{0, 1600, 1});
      const auto unsplit = the_case.attend(many);
      CHECK(difference(rows_of(unsplit, 0, 1, shape), rows_of(whole, 1600, 1, shape)) == "");
      CHECK(difference(rows_of(unsplit, static_cast<int>(many.size()) - 1, 1, shape),
                       rows_of(whole, 1600, 1, shape)) == "");
    }
    for (const int page_size : {shape.type == KvType::fp8 ? 32 : 8, 64}) {
      shape.page_size = page_size;
      PagedCase other(shape, {length, 3000, 40}, 11);
      other.set_deterministic(true);
      other.set_compute_capability(testing::compute_capability());
      CAPTURE(page_size);
      CHECK(difference(other.attend({{0, 1000, 700}}), rows_of(whole, 1000, 700, shape)) == "");
      CHECK(difference(other.attend({{0, 1500, 1}}), rows_of(whole, 1500, 1, shape)) == "");
    }
  }
}

TEST_CASE("a call can be captured, and its graph replayed") {
  if (!has_gpu()) return;
  CaseShape shape;
  shape.heads = 8;
  shape.kv_heads = 2;
  PagedCase the_case(shape, {300, 3000, 1200}, 12);
  the_case.set_compute_capability(testing::compute_capability());
  const std::vector<Part> parts = {{0, 0, 300}, {1, 2999, 1}, {2, 1100, 100}};
  CHECK(difference(the_case.attend(parts, true), the_case.attend(parts)) == "");
}

TEST_CASE("what attention cannot do is refused by name") {
  cuda::PagedAttentionCall call;
  call.heads = 4;
  call.kv.kv_heads = 3;
  call.kv.page_size = 16;
  call.kv.head_size = 64;
  CHECK(cuda::paged_attention({}, call).code() == StatusCode::unsupported);
  call.kv.kv_heads = 2;
  call.kv.head_size = 72;
  CHECK(cuda::paged_attention({}, call).message().find("72") != std::string::npos);
  call.kv.head_size = 64;
  call.kv.page_size = 20;
  CHECK(cuda::paged_attention({}, call).message().find("20") != std::string::npos);
  call.kv.page_size = 8;
  call.kv.type = KvType::fp8;
  CHECK(cuda::paged_attention({}, call).message().find("fp8") != std::string::npos);
  call.kv.page_size = 16;
  call.kv.type = KvType::f32;
  CHECK(cuda::paged_attention({}, call).code() == StatusCode::unsupported);
}

}  // namespace
}  // namespace quire::test
