#include <algorithm>
#include <cmath>

#include "cpu/operations_fixture.h"

namespace quire {
namespace {

using namespace test;

// One attention_input call: queries, then the keys and values that it left in the pages.
struct InputCase {
  QkNorm qk_norm = QkNorm::none;
  bool bias = false;
  int rope = 32;
  bool writes = true;
};

std::vector<float> attention_input(Device& device, const InputCase& c) {
  constexpr int kWidth = 96, kHeads = 6, kKvHeads = 2, kSize = 32, kRows = 40;
  std::mt19937 random(2);
  const TestLinear q(device, kHeads * kSize, kWidth, c.bias, random);
  const TestLinear k(device, kKvHeads * kSize, kWidth, c.bias, random);
  const TestLinear v(device, kKvHeads * kSize, kWidth, c.bias, random);
  const std::vector<float> hidden = test::random_floats(kRows * kWidth, random, 50);
  const std::vector<float> weight = test::random_floats(kWidth, random);
  const std::vector<float> q_weight = test::random_floats(kHeads * kSize, random);
  const std::vector<float> k_weight = test::random_floats(kKvHeads * kSize, random);
  const std::vector<float> angle =
      test::random_floats(static_cast<std::size_t>(kRows * c.rope / 2), random, 3);
  std::vector<float> cosine, sine;
  for (const float a : angle) {
    cosine.push_back(std::cos(a));
    sine.push_back(std::sin(a));
  }
  // Two sequences, the second in the middle of a page.
  const std::vector<PageId> pages_a = {3, 0}, pages_b = {kNoPage, 2, 5};
  PagePool pool(device, {1, kKvHeads, kSize, 0}, KvType::f32, 16, 6, 2, 1);

  const auto compute = [&](int first, int count) {
    std::vector<float> query(static_cast<std::size_t>(count * kHeads * kSize), NAN);
    std::vector<SequenceRows> sequences;
    const int in_a = std::clamp(25 - first, 0, count);
    if (in_a > 0) sequences.push_back({0, in_a, first, pages_a.data(), 2});
    if (count > in_a) {
      sequences.push_back({in_a, count - in_a, 20 + first + in_a - 25, pages_b.data(), 3});
    }
    AttentionInputArgs args;
    args.rows = count;
    args.width = kWidth;
    args.hidden = hidden.data() + first * kWidth;
    args.norm = {weight.data(), 1e-5f};
    args.q = &q.linear;
    args.k = c.writes ? &k.linear : nullptr;
    args.v = c.writes ? &v.linear : nullptr;
    args.heads = kHeads;
    args.qk_norm = c.qk_norm;
    args.q_norm = {q_weight.data(), 1e-6f};
    args.k_norm = {k_weight.data(), 1e-6f};
    args.rope = {c.rope, cosine.data() + first * c.rope / 2, sine.data() + first * c.rope / 2};
    args.query = query.data();
    args.kv = pool.kv();
    args.sequences = sequences;
    test::require_ok(device.ops().attention_input(device, args));
    return query;
  };
  std::vector<float> result = whole_and_single(kRows, compute);

  const auto finish = [&](std::vector<double> x, int heads, const std::vector<float>& norm,
                          int row) {
    if (c.qk_norm == QkNorm::whole) x = rms_norm(x, {norm.data(), 1e-6f});
    for (int h = 0; h < heads; ++h) {
      std::vector<double> one(x.begin() + h * kSize, x.begin() + (h + 1) * kSize);
      if (c.qk_norm == QkNorm::per_head) one = rms_norm(one, {norm.data(), 1e-6f});
      const int half = c.rope / 2;
      const std::vector<double> before = one;
      for (int i = 0; i < half; ++i) {
        const double co = std::cos(angle[static_cast<std::size_t>(row * half + i)]);
        const double si = std::sin(angle[static_cast<std::size_t>(row * half + i)]);
        const double a = before[static_cast<std::size_t>(i)];
        const double b = before[static_cast<std::size_t>(i + half)];
        one[static_cast<std::size_t>(i)] = a * co - b * si;
        one[static_cast<std::size_t>(i + half)] = b * co + a * si;
      }
      std::copy(one.begin(), one.end(), x.begin() + h * kSize);
    }
    return x;
  };
  Rows queries, keys, values;
  const Rows input = rows_of(hidden, kWidth);
  for (int row = 0; row < kRows; ++row) {
    const auto normed = rms_norm(input[static_cast<std::size_t>(row)], {weight.data(), 1e-5f});
    queries.push_back(finish(q(normed), kHeads, q_weight, row));
    keys.push_back(finish(k(normed), kKvHeads, k_weight, row));
    values.push_back(v(normed));
  }
  check_close(result, queries);

  const cpu::KvLayout layout = cpu::kv_layout(KvType::f32, 16, kSize);
  std::vector<float> got_keys, got_values;
  for (int row = 0; row < kRows && c.writes; ++row) {
    const int position = row < 25 ? row : 20 + row - 25;
    const PageId page = (row < 25 ? pages_a : pages_b)[static_cast<std::size_t>(position / 16)];
    for (int h = 0; h < kKvHeads; ++h) {
      const std::byte* head =
          pool.kv().slab(page) + layout.head_bytes * static_cast<std::size_t>(h);
      std::vector<float> block(kSize * attention::kKeyBlock), value(kSize);
      const cpu::RowKernels& kernels = cpu::row_kernels(cpu::Isa::scalar);
      kernels.read_keys(layout, head, 0, 16, block.data());
      kernels.read_values(layout, head, position % 16, 1, kSize, value.data());
      for (int i = 0; i < kSize; ++i) {
        got_keys.push_back(
            block[static_cast<std::size_t>(i * attention::kKeyBlock + position % 16)]);
      }
      got_values.insert(got_values.end(), value.begin(), value.end());
    }
  }
  if (c.writes) {
    check_close(got_keys, keys);
    check_close(got_values, values);
    result.insert(result.end(), got_keys.begin(), got_keys.end());
    result.insert(result.end(), got_values.begin(), got_values.end());
  } else {
    const DeviceBuffer& bytes = pool.buffer();
    auto& mutable_bytes = const_cast<DeviceBuffer&>(bytes);
    CHECK(std::all_of(mutable_bytes.data(), mutable_bytes.data() + bytes.size(),
                      [](std::byte b) { return b == std::byte{0xff}; }));
  }
  return result;
}

TEST_CASE("attention_input normalises, projects, rotates and writes keys and values") {
  const InputCase cases[] = {{},
                             {QkNorm::per_head, false, 32, true},
                             {QkNorm::whole, true, 20, true},
                             {QkNorm::none, true, 0, true},
                             {QkNorm::per_head, true, 8, false}};
  for (const InputCase& c : cases) {
    INFO("norm " << static_cast<int>(c.qk_norm) << " rope " << c.rope);
    on_every_device([&](Device& device) { return attention_input(device, c); });
  }
}

TEST_CASE("attention_output adds the projection, with and without a norm after it") {
  for (const bool post : {false, true}) {
    on_every_device([&](Device& device) {
      constexpr int kWidth = 100, kIn = 192, kRows = 37;
      std::mt19937 random(3);
      const TestLinear o(device, kWidth, kIn, post, random);
      const std::vector<float> input = test::random_floats(kRows * kIn, random);
      const std::vector<float> start = test::random_floats(kRows * kWidth, random);
      const std::vector<float> weight = test::random_floats(kWidth, random);
      const RmsNorm norm{post ? weight.data() : nullptr, 1e-6f};
      const auto compute = [&](int first, int count) {
        std::vector<float> hidden(start.begin() + first * kWidth,
                                  start.begin() + (first + count) * kWidth);
        AttentionOutputArgs args;
        args.rows = count;
        args.width = kWidth;
        args.input = input.data() + first * kIn;
        args.o = &o.linear;
        args.post_norm = norm;
        args.residual_scale = 0.7f;
        args.hidden = hidden.data();
        test::require_ok(device.ops().attention_output(device, args));
        return hidden;
      };
      std::vector<float> result = whole_and_single(kRows, compute);
      Rows want = rows_of(start, kWidth);
      const Rows in = rows_of(input, kIn);
      for (std::size_t row = 0; row < kRows; ++row) {
        const auto y = rms_norm(o(in[row]), norm);
        for (std::size_t i = 0; i < kWidth; ++i) want[row][i] += 0.7f * y[i];
      }
      check_close(result, want);
      return result;
    });
  }
}

}  // namespace
}  // namespace quire
