#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/operations_fixture.h"

namespace quire {
namespace {

using namespace test;

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

}  // namespace
}  // namespace quire
