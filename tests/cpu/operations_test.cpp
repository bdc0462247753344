#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "cpu/device_fixture.h"

namespace quire {
namespace {

using test::PagePool;
using Rows = std::vector<std::vector<double>>;

constexpr double kTolerance = 2e-5;

// A float32 weight with bias, its packed form and its definition.
struct TestLinear {
  int out = 0, in = 0;
  std::vector<float> weight, bias;
  Linear linear;

  TestLinear() = default;
  TestLinear(Device& device, int out, int in, bool with_bias, std::mt19937& random,
             bool gather = false)
      : out(out), in(in) {
    weight = test::random_floats(static_cast<std::size_t>(out * in), random,
                                 1 / std::sqrt(static_cast<float>(in)));
    if (with_bias) bias = test::random_floats(static_cast<std::size_t>(out), random, 0.3f);
    TensorView view;
    view.name = "test";
    view.type = DType::f32;
    view.shape = {out, in};
    view.dimensions = 2;
    view.bytes = std::as_bytes(std::span(weight));
    PackSpec spec;
    spec.gather = gather;
    Result<std::unique_ptr<PackedMatrix>> packed = device.pack(view, spec);
    if (!packed) FAIL(packed.status().message());
    linear.weight = std::move(*packed);
    linear.bias = with_bias ? bias.data() : nullptr;
  }
  std::vector<double> operator()(const std::vector<double>& x) const {
    std::vector<double> y(static_cast<std::size_t>(out));
    for (int r = 0; r < out; ++r) {
      double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(r)];
      for (int k = 0; k < in; ++k) {
        sum += static_cast<double>(weight[static_cast<std::size_t>(r * in + k)]) *
               x[static_cast<std::size_t>(k)];
      }
      y[static_cast<std::size_t>(r)] = sum;
    }
    return y;
  }
};

Rows rows_of(const std::vector<float>& x, int width) {
  Rows rows;
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(width)) {
    rows.emplace_back(x.begin() + static_cast<std::ptrdiff_t>(i),
                      x.begin() + static_cast<std::ptrdiff_t>(i) + width);
  }
  return rows;
}

std::vector<double> rms_norm(std::vector<double> x, const RmsNorm& norm) {
  if (norm.weight == nullptr) return x;
  double mean = 0;
  for (const double v : x) mean += v * v / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] *= norm.weight[i] / std::sqrt(mean + norm.epsilon);
  }
  return x;
}

double activation(Activation kind, double gate, double up) {
  switch (kind) {
    case Activation::silu:
      return gate / (1 + std::exp(-gate)) * up;
    case Activation::gelu_tanh:
      return 0.5 * gate *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate))) * up;
    case Activation::swiglu_clamped:
      gate = std::min(gate, 7.0);
      up = std::clamp(up, -7.0, 7.0);
      return (up + 1) * gate / (1 + std::exp(-1.702 * gate));
  }
  return NAN;
}

void check_close(const std::vector<float>& got, const Rows& want, double tolerance = kTolerance) {
  std::size_t i = 0;
  double worst = 0;
  for (const auto& row : want) {
    for (const double value : row) {
      REQUIRE(i < got.size());
      const double error = std::fabs(got[i++] - value) / (1 + std::fabs(value));
      if (!(error <= worst)) worst = error;
    }
  }
  CHECK(i == got.size());
  CHECK(worst < tolerance);
}

WorkLimits small_limits() {
  WorkLimits limits;
  limits.rows = 160;
  limits.width = 192;
  limits.heads = 6;
  limits.head_size = 32;
  limits.logit_rows = 160;
  limits.vocabulary = 300;
  limits.context = 256;
  return limits;
}

std::unique_ptr<Device> ready_device(cpu::Isa isa, int threads) {
  std::unique_ptr<Device> device = test::open_test_device(isa, threads);
  test::require_ok(device->reserve(small_limits()));
  return device;
}

// Runs `body(device)` on every instruction set with one and with two threads; the returned floats
// must have the same bits for both.
void on_every_device(const std::function<std::vector<float>(Device&)>& body) {
  for (const cpu::Isa isa : test::available_isas()) {
    INFO(test::device_name(isa));
    const std::vector<float> one = body(*ready_device(isa, 1));
    const std::vector<float> two = body(*ready_device(isa, 2));
    CHECK(test::same_bits(one, two));
  }
}

// The same rows computed all at once and one by one must have the same bits.
std::vector<float> whole_and_single(
    int rows, const std::function<std::vector<float>(int first, int count)>& compute) {
  std::vector<float> whole = compute(0, rows), joined;
  for (int row = 0; row < rows; ++row) {
    const std::vector<float> one = compute(row, 1);
    joined.insert(joined.end(), one.begin(), one.end());
  }
  CHECK(test::same_bits(whole, joined));
  return whole;
}

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

TEST_CASE("a dense layer gates with each activation") {
  for (const Activation kind :
       {Activation::silu, Activation::gelu_tanh, Activation::swiglu_clamped}) {
    for (const bool post : {false, true}) {
      on_every_device([&](Device& device) {
        constexpr int kWidth = 96, kInner = 180, kRows = 35;
        std::mt19937 random(4);
        TestLinear gate(device, kInner, kWidth, true, random);
        TestLinear up(device, kInner, kWidth, false, random);
        TestLinear down(device, kWidth, kInner, post, random);
        MlpSpec mlp;
        mlp.gate = &gate.linear;
        mlp.up = &up.linear;
        mlp.down = &down.linear;
        mlp.ff = kInner;
        mlp.activation = kind;
        const std::vector<float> start = test::random_floats(kRows * kWidth, random, 1000);
        const std::vector<float> weight = test::random_floats(kWidth, random, 5);
        const RmsNorm norm{weight.data(), 1e-6f};
        const RmsNorm post_norm{post ? weight.data() : nullptr, 1e-6f};
        const auto inner = [&](int first, int count) {
          std::vector<float> result(static_cast<std::size_t>(count * kInner), NAN);
          MlpInputArgs args;
          args.rows = count;
          args.width = kWidth;
          args.hidden = start.data() + first * kWidth;
          args.norm = norm;
          args.mlp = &mlp;
          args.inner = result.data();
          test::require_ok(device.ops().mlp_input(device, args));
          return result;
        };
        std::vector<float> gated = whole_and_single(kRows, inner);
        Rows want = rows_of(start, kWidth), want_inner;
        for (auto& row : want) {
          const auto x = rms_norm(row, norm);
          auto g = gate(x);
          const auto u = up(x);
          for (std::size_t i = 0; i < kInner; ++i) g[i] = activation(kind, g[i], u[i]);
          const auto y = rms_norm(down(g), post_norm);
          for (std::size_t i = 0; i < kWidth; ++i) row[i] += y[i];
          want_inner.push_back(g);
        }
        check_close(gated, want_inner);
        const auto output = [&](int first, int count) {
          std::vector<float> hidden(start.begin() + first * kWidth,
                                    start.begin() + (first + count) * kWidth);
          MlpOutputArgs args;
          args.rows = count;
          args.width = kWidth;
          args.inner = gated.data() + first * kInner;
          args.mlp = &mlp;
          args.post_norm = post_norm;
          args.hidden = hidden.data();
          test::require_ok(device.ops().mlp_output(device, args));
          return hidden;
        };
        std::vector<float> result = whole_and_single(kRows, output);
        check_close(result, want, 1e-4);
        return result;
      });
    }
  }
}

TEST_CASE("a mixture sends each row through its own experts") {
  for (const bool renormalise : {true, false}) {
    on_every_device([&](Device& device) {
      constexpr int kWidth = 64, kInner = 48, kRows = 150, kExperts = 5, kChosen = 3;
      std::mt19937 random(5);
      TestLinear router(device, kExperts, kWidth, true, random);
      std::vector<TestLinear> gate, up, down;
      std::vector<Linear> gates, ups, downs;
      for (int e = 0; e < kExperts; ++e) {
        gate.emplace_back(device, kInner, kWidth, true, random);
        up.emplace_back(device, kInner, kWidth, true, random);
        down.emplace_back(device, kWidth, kInner, true, random);
      }
      for (int e = 0; e < kExperts; ++e) {
        const auto at = static_cast<std::size_t>(e);
        gates.push_back({std::move(gate[at].linear.weight), gate[at].bias.data()});
        ups.push_back({std::move(up[at].linear.weight), up[at].bias.data()});
        downs.push_back({std::move(down[at].linear.weight), down[at].bias.data()});
      }
      MlpSpec mlp;
      mlp.ff = kInner;
      mlp.activation = Activation::swiglu_clamped;
      mlp.mixture = {kExperts,     kChosen,    renormalise, &router.linear,
                     gates.data(), ups.data(), downs.data()};
      const std::vector<float> start = test::random_floats(kRows * kWidth, random);
      const std::vector<float> weight = test::random_floats(kWidth, random, 2);
      const RmsNorm norm{weight.data(), 1e-6f};
      std::vector<std::int32_t> last_chosen;
      std::vector<float> last_weights;
      const auto compute = [&](int first, int count) {
        std::vector<float> inner(static_cast<std::size_t>(count * kChosen * kInner), NAN);
        std::vector<std::int32_t> chosen(static_cast<std::size_t>(count * kChosen), -1);
        std::vector<float> weights(static_cast<std::size_t>(count * kChosen), NAN);
        std::vector<float> hidden(start.begin() + first * kWidth,
                                  start.begin() + (first + count) * kWidth);
        MlpInputArgs in{count, kWidth,       hidden.data(), norm,
                        &mlp,  inner.data(), chosen.data(), weights.data()};
        test::require_ok(device.ops().mlp_input(device, in));
        MlpOutputArgs out{count, kWidth, inner.data(), chosen.data(), weights.data(), &mlp,
                          {},    1,      hidden.data()};
        test::require_ok(device.ops().mlp_output(device, out));
        last_chosen = chosen;
        last_weights = weights;
        return hidden;
      };
      std::vector<float> result = whole_and_single(kRows, compute);
      Rows want = rows_of(start, kWidth);
      for (auto& row : want) {
        const auto x = rms_norm(row, norm);
        const auto logits = router(x);
        std::vector<std::size_t> order(kExperts);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
        double sum = 0;
        const std::size_t counted = renormalise ? kChosen : kExperts;
        for (std::size_t i = 0; i < counted; ++i) {
          sum += std::exp(logits[order[i]]);
        }
        for (std::size_t i = 0; i < kChosen; ++i) {
          const std::size_t e = order[i];
          auto g = gate[e](x);
          const auto u = up[e](x);
          for (std::size_t j = 0; j < kInner; ++j) g[j] = activation(mlp.activation, g[j], u[j]);
          const auto y = down[e](g);
          for (std::size_t j = 0; j < kWidth; ++j) row[j] += std::exp(logits[e]) / sum * y[j];
        }
      }
      check_close(result, want);
      return result;
    });
  }
}

TEST_CASE("equal router logits choose the lower expert, whatever their values") {
  on_every_device([](Device& device) {
    std::mt19937 random(6);
    constexpr int kExperts = 4;
    TestLinear router(device, kExperts, 32, true, random);
    for (float& b : router.bias) b = 0.25f;
    std::vector<Linear> experts;
    std::vector<TestLinear> stored;
    for (int e = 0; e < 3 * kExperts; ++e) stored.emplace_back(device, 32, 32, false, random);
    for (TestLinear& linear : stored) experts.push_back({std::move(linear.linear.weight), nullptr});
    MlpSpec mlp;
    mlp.ff = 32;
    mlp.mixture = {kExperts,          2, true, &router.linear, experts.data(), experts.data() + 4,
                   experts.data() + 8};
    const std::vector<float> hidden(32, 0.0f);
    std::vector<float> inner(64), weights(2);
    std::vector<std::int32_t> chosen(2);
    test::require_ok(device.ops().mlp_input(
        device, {1, 32, hidden.data(), {}, &mlp, inner.data(), chosen.data(), weights.data()}));
    CHECK(chosen == std::vector<std::int32_t>{0, 1});
    CHECK(weights == std::vector<float>{0.5f, 0.5f});
    return weights;
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
