#include <algorithm>
#include <cmath>

#include "cpu/operations_fixture.h"

namespace quire {
namespace {

using namespace test;

TEST_CASE("embed gives scaled rows of the table and refuses unknown tokens") {
  on_every_device([](Device& device) {
    std::mt19937 random(1);
    const TestLinear table(device, 50, 72, false, random, true);
    const std::vector<std::int32_t> tokens = {0, 49, 7, 7, 33};
    std::vector<float> hidden(tokens.size() * 72, NAN);
    test::require_ok(
        device.ops().embed(device, {tokens, table.linear.weight.get(), 2.5f, hidden.data()}));
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      const auto at = static_cast<std::size_t>(tokens[i / 72]) * 72 + i % 72;
      CHECK(hidden[i] == 2.5f * table.weight[at]);
    }
    const std::vector<std::int32_t> wrong = {50};
    CHECK(device.ops().embed(device, {wrong, table.linear.weight.get(), 1, hidden.data()}).code() ==
          StatusCode::internal);
    return hidden;
  });
}

TEST_CASE("final_norm takes the rows asked for") {
  on_every_device([](Device& device) {
    constexpr int kWidth = 90;
    std::mt19937 random(7);
    const std::vector<float> hidden = test::random_floats(6 * kWidth, random, 1e5f);
    const std::vector<float> weight = test::random_floats(kWidth, random);
    const std::vector<std::int32_t> rows = {4, 0, 4};
    std::vector<float> output(3 * kWidth, NAN);
    const RmsNorm norm{weight.data(), 1e-6f};
    test::require_ok(
        device.ops().final_norm(device, {rows, kWidth, hidden.data(), norm, output.data()}));
    const Rows all = rows_of(hidden, kWidth);
    check_close(output, {rms_norm(all[4], norm), rms_norm(all[0], norm), rms_norm(all[4], norm)},
                1e-6);
    return output;
  });
}

TEST_CASE("head computes a block of the vocabulary, scaled and capped") {
  for (const float cap : {0.0f, 5.0f}) {
    on_every_device([&](Device& device) {
      constexpr int kWidth = 64, kVocabulary = 300, kRows = 20;
      std::mt19937 random(8);
      const TestLinear weight(device, kVocabulary, kWidth, false, random);
      const std::vector<float> input = test::random_floats(kRows * kWidth, random, 3);
      const auto compute = [&](int first, int count) {
        std::vector<float> logits(static_cast<std::size_t>(count * kVocabulary), NAN);
        for (const auto& [from, columns] : {std::pair(0, 128), {128, 128}, {256, 44}}) {
          HeadArgs args{count,          kWidth, input.data() + first * kWidth,
                        &weight.linear, from,   columns,
                        1.5f,           cap,    logits.data()};
          test::require_ok(device.ops().head(device, args));
        }
        return logits;
      };
      std::vector<float> result = whole_and_single(kRows, compute);
      Rows want;
      for (const auto& row : rows_of(input, kWidth)) {
        want.push_back(weight(row));
        for (double& v : want.back()) v = cap > 0 ? cap * std::tanh(1.5 * v / cap) : 1.5 * v;
      }
      check_close(result, want);
      return result;
    });
  }
}

TEST_CASE("sample draws each row alone and reports one bad row to that row only") {
  on_every_device([](Device& device) {
    std::mt19937 random(9);
    constexpr int kVocabulary = 300, kDraws = 9;
    std::vector<float> logits = test::random_floats(kDraws * kVocabulary, random, 3);
    std::fill_n(logits.begin() + 4 * kVocabulary, kVocabulary, NAN);
    std::vector<DrawArgs> draws(kDraws);
    std::vector<DrawResult> results(kDraws);
    std::vector<float> tokens;
    for (std::size_t i = 0; i < kDraws; ++i) {
      draws[i].logits = logits.data() + i * kVocabulary;
      draws[i].vocabulary = kVocabulary;
      draws[i].seed = i;
      if (i % 2 == 1) draws[i].params.temperature = 0;
    }
    test::require_ok(device.ops().sample(device, {draws, results}));
    for (std::size_t i = 0; i < kDraws; ++i) {
      CHECK(results[i].status.ok() == (i != 4));
      tokens.push_back(static_cast<float>(results[i].token));
      if (i % 2 == 0) continue;
      const auto* row = draws[i].logits;
      CHECK(results[i].token == std::max_element(row, row + kVocabulary) - row);
    }
    return tokens;
  });
}

TEST_CASE("copy_pages copies all layers of a group") {
  on_every_device([](Device& device) {
    const KvGroupSpec spec{2, 2, 32, 0};
    PagePool pool(device, spec, KvType::int8, 16, 4, 2, 0);
    const std::size_t page = pool.kv().page_bytes;
    std::byte* bytes = pool.buffer().data();
    for (std::size_t i = 0; i < 4 * page; ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
    const std::vector<std::byte> before(bytes, bytes + 4 * page);
    const std::vector<PageCopy> copies = {{0, 1, 3, 16}, {0, 0, 2, 5}};
    const KvLayer group = pool.kv();
    test::require_ok(device.ops().copy_pages(device, {copies, {&group, 1}, {&spec, 1}}));
    CHECK(
        std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(2 * page), bytes));
    CHECK(std::memcmp(bytes + 3 * page, before.data() + page, page) == 0);
    CHECK(std::memcmp(bytes + 2 * page, before.data(), page) == 0);
    const std::vector<PageCopy> wrong = {{1, 0, 1, 1}};
    CHECK(device.ops().copy_pages(device, {wrong, {&group, 1}, {&spec, 1}}).code() ==
          StatusCode::internal);
    return std::vector<float>{};
  });
}

}  // namespace
}  // namespace quire
