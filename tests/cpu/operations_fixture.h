#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "cpu/device_fixture.h"

// What the tests of the model operations share: their definitions in float64, and runs on every
// instruction set.
namespace quire::test {

using Rows = std::vector<std::vector<double>>;

inline constexpr double kTolerance = 2e-5;

// A float32 weight with bias, its packed form and its definition.
struct TestLinear {
  int out = 0, in = 0;
  std::vector<float> weight, bias;
  Linear linear;

  TestLinear() = default;
  TestLinear(Device& device, int out, int in, bool with_bias, std::mt19937& random,
             bool gather = false)
      : out(out), in(in) {
    weight = random_floats(static_cast<std::size_t>(out * in), random,
                           1 / std::sqrt(static_cast<float>(in)));
    if (with_bias) bias = random_floats(static_cast<std::size_t>(out), random, 0.3f);
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

inline Rows rows_of(const std::vector<float>& x, int width) {
  Rows rows;
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(width)) {
    rows.emplace_back(x.begin() + static_cast<std::ptrdiff_t>(i),
                      x.begin() + static_cast<std::ptrdiff_t>(i) + width);
  }
  return rows;
}

inline std::vector<double> rms_norm(std::vector<double> x, const RmsNorm& norm) {
  if (norm.weight == nullptr) return x;
  double mean = 0;
  for (const double v : x) mean += v * v / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] *= norm.weight[i] / std::sqrt(mean + norm.epsilon);
  }
  return x;
}

inline double activation(Activation kind, double gate, double up) {
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

inline void check_close(const std::vector<float>& got, const Rows& want,
                        double tolerance = kTolerance) {
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

inline WorkLimits small_limits() {
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

inline std::unique_ptr<Device> ready_device(cpu::Isa isa, int threads) {
  std::unique_ptr<Device> device = open_test_device(isa, threads);
  require_ok(device->reserve(small_limits()));
  return device;
}

// Runs `body(device)` on every instruction set with one and with two threads; the returned floats
// must have the same bits for both.
inline void on_every_device(const std::function<std::vector<float>(Device&)>& body) {
  for (const cpu::Isa isa : available_isas()) {
    INFO(device_name(isa));
    const std::vector<float> one = body(*ready_device(isa, 1));
    const std::vector<float> two = body(*ready_device(isa, 2));
    CHECK(same_bits(one, two));
  }
}

// The same rows computed all at once and one by one must have the same bits.
inline std::vector<float> whole_and_single(
    int rows, const std::function<std::vector<float>(int first, int count)>& compute) {
  std::vector<float> whole = compute(0, rows), joined;
  for (int row = 0; row < rows; ++row) {
    const std::vector<float> one = compute(row, 1);
    joined.insert(joined.end(), one.begin(), one.end());
  }
  CHECK(same_bits(whole, joined));
  return whole;
}

}  // namespace quire::test
