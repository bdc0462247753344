// The kernels over rows against plain loops in double.
#include "operations/row_kernels.h"

#include <cmath>
#include <random>
#include <vector>

#include "cuda/gpu.h"
#include "cuda/operations/device_values.h"
#include "operations/mixture_kernels.h"

namespace quire::testing {
namespace {

using namespace quire::cuda;

constexpr unsigned kSeed = 42;
constexpr double kBfloat16Step = 1.0 / 128;  // relative, between neighbours

Launch launch() {
  return {};
}

std::vector<float> random_values(std::size_t count, std::mt19937& random, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<double> normed(const std::vector<float>& x, std::size_t at, int width,
                           const std::vector<float>& weight, double epsilon) {
  std::vector<double> result(x.begin() + static_cast<std::ptrdiff_t>(at),
                             x.begin() + static_cast<std::ptrdiff_t>(at) + width);
  if (weight.empty()) return result;
  double squares = 0;
  for (const double v : result) squares += v * v;
  const double factor = 1 / std::sqrt(squares / width + epsilon);
  for (int i = 0; i < width; ++i) result[i] *= factor * weight[i];
  return result;
}

double worst_relative(const std::vector<float>& values, const std::vector<double>& expected,
                      double floor) {
  double worst = 0;
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return INFINITY;
    worst = std::max(worst, std::abs(values[i] - expected[i]) / (std::abs(expected[i]) + floor));
  }
  return worst;
}

}  // namespace

TEST_CASE("norm_rows and add_rows at every kind of width", "[gpu]") {
  if (!has_gpu()) return;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (const int width : {1, 7, 64, 1000, 1024, 2880, 4096, 5120, 16384}) {
    for (const bool weighted : {true, false}) {
      INFO("width " << width << (weighted ? ", with" : ", without") << " weight");
      const int in_rows = 9;
      const std::vector<std::int32_t> rows = {8, 0, 3, 3};
      const auto x = random_values(static_cast<std::size_t>(in_rows) * width, random, 3);
      std::vector<float> weight;
      if (weighted) weight = random_values(static_cast<std::size_t>(width), random);
      const DeviceValues<float> device_x(x), device_weight(weight);
      const DeviceValues<std::int32_t> device_rows(rows);
      const RmsNorm norm{weighted ? device_weight.data() : nullptr, 1e-5f};

      DeviceValues<__nv_bfloat16> out(rows.size() * static_cast<std::size_t>(width));
      REQUIRE(norm_rows(launch(), device_x.data(), device_rows.data(), 4, width, norm, out.data())
                  .ok());
      std::vector<double> expected;
      for (const std::int32_t row : rows) {
        const auto one = normed(x, static_cast<std::size_t>(row) * width, width, weight, 1e-5);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      CHECK(worst_relative(to_floats(out.read()), expected, 1e-6) <= 0.51 * kBfloat16Step);

      const auto hidden = random_values(x.size(), random);
      DeviceValues<float> device_hidden(hidden);
      REQUIRE(add_rows(launch(), device_x.data(), in_rows, width, norm, 0.5f, device_hidden.data())
                  .ok());
      expected.clear();
      for (int row = 0; row < in_rows; ++row) {
        const std::size_t at = static_cast<std::size_t>(row) * width;
        const auto one = normed(x, at, width, weight, 1e-5);
        for (int i = 0; i < width; ++i) expected.push_back(hidden[at + i] + 0.5 * one[i]);
      }
      CHECK(worst_relative(device_hidden.read(), expected, 1) <= 1e-5);
    }
  }
}

TEST_CASE("rotations are those of the host to float32's precision", "[gpu]") {
  if (!has_gpu()) return;
  const int half = 64;
  std::vector<float> frequency;
  for (int choice = 0; choice < 2; ++choice) {
    for (int i = 0; i < half; ++i) {
      frequency.push_back(static_cast<float>(std::pow(10000.0 * (1 + choice), -i / 64.0)));
    }
  }
  const std::vector<std::int32_t> positions = {0, 1, 77, 4095, 131071}, choices = {0, 1, 0, 1, 0};
  const DeviceValues<float> device_frequency(frequency);
  const DeviceValues<std::int32_t> device_positions(positions), device_choices(choices);
  DeviceValues<float> cosine(positions.size() * half), sine(positions.size() * half);
  RotationArgs table;
  table.dimensions = 2 * half;
  table.frequency[0] = device_frequency.data();
  table.frequency[1] = device_frequency.data() + half;
  table.magnitude[1] = 1.25f;
  table.cosine = cosine.data();
  table.sine = sine.data();
  REQUIRE(rotation_rows(launch(), device_positions.data(), device_choices.data(),
                        static_cast<int>(positions.size()), table)
              .ok());
  const auto cosines = cosine.read(), sines = sine.read();
  double worst = 0;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (int i = 0; i < half; ++i) {
      const float f = frequency[static_cast<std::size_t>(choices[row] * half + i)];
      const double angle = static_cast<float>(positions[row]) * f;  // rounded as the host does
      const double magnitude = choices[row] == 1 ? 1.25 : 1;
      const std::size_t at = row * half + static_cast<std::size_t>(i);
      worst = std::max(worst, std::abs(cosines[at] - magnitude * std::cos(angle)));
      worst = std::max(worst, std::abs(sines[at] - magnitude * std::sin(angle)));
    }
  }
  CHECK(worst <= 4e-7);
}

TEST_CASE("logits are scaled and capped only in their columns", "[gpu]") {
  if (!has_gpu()) return;
  std::mt19937 random(kSeed);
  const int rows = 3, stride = 700, count = 300;
  const auto x = random_values(rows * stride, random, 20);
  for (const float cap : {0.0f, 30.0f}) {
    DeviceValues<float> device_x(x);
    REQUIRE(scale_logits(launch(), device_x.data() + 64, rows, count, stride, 0.25f, cap).ok());
    std::vector<double> expected(x.begin(), x.end());
    for (int row = 0; row < rows; ++row) {
      for (int i = 64; i < 64 + count; ++i) {
        double& value = expected[static_cast<std::size_t>(row * stride + i)];
        value = cap > 0 ? cap * std::tanh(0.25 * value / cap) : 0.25 * value;
      }
    }
    CHECK(worst_relative(device_x.read(), expected, 1e-3) <= 1e-5);
  }
}

TEST_CASE("activations of gate and up, to the places of a mixture too", "[gpu]") {
  if (!has_gpu()) return;
  std::mt19937 random(kSeed);
  const int rows = 3, ff = 333;
  const auto x = random_values(rows * 2 * ff, random, 4);
  const std::vector<std::int32_t> places = {2, 0, 1};
  const DeviceValues<float> device_x(x);
  const DeviceValues<std::int32_t> device_places(places);
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::swiglu_clamped}) {
    DeviceValues<__nv_bfloat16> out(rows * ff);
    REQUIRE(activate_rows(launch(), activation, device_x.data(), rows, ff, device_places.data(),
                          out.data())
                .ok());
    std::vector<double> expected(rows * ff);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < ff; ++i) {
        double gate = x[row * 2 * ff + i], up = x[row * 2 * ff + ff + i];
        double& to = expected[places[row] * ff + i];
        if (activation == Activation::silu) {
          to = gate / (1 + std::exp(-gate)) * up;
        } else if (activation == Activation::gelu_tanh) {
          const double inner = std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
          to = 0.5 * gate * (1 + std::tanh(inner)) * up;
        } else {
          gate = std::min(gate, 7.0);
          up = std::min(std::max(up, -7.0), 7.0);
          to = gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
        }
      }
    }
    INFO("activation " << static_cast<int>(activation));
    CHECK(worst_relative(to_floats(out.read()), expected, 1e-3) <= 0.51 * kBfloat16Step);
  }
}

TEST_CASE("experts are chosen by logit, ties by index, NaN never first", "[gpu]") {
  if (!has_gpu()) return;
  const int experts = 40, top_k = 3;
  std::vector<float> logits(3 * experts, 0.0f);
  logits[5] = 2;
  logits[39] = 3;
  logits[7] = 2;
  for (int e = 0; e < experts; ++e) logits[2 * experts + e] = NAN;
  logits[2 * experts + 33] = -1;
  const DeviceValues<float> device_logits(logits);
  for (const bool renormalise : {true, false}) {
    DeviceValues<std::int32_t> chosen(3 * top_k);
    DeviceValues<float> weights(3 * top_k);
    REQUIRE(choose_experts(launch(), device_logits.data(), 3, experts, top_k, renormalise,
                           chosen.data(), weights.data())
                .ok());
    const auto ids = chosen.read();
    const auto w = weights.read();
    CHECK(std::vector<std::int32_t>(ids.begin(), ids.begin() + 6) ==
          std::vector<std::int32_t>{39, 5, 7, 0, 1, 2});
    CHECK(ids[6] == 33);
    const double rest = renormalise ? 0 : 37 * std::exp(-3.0);
    CHECK(w[0] == Approx(1 / (1 + 2 * std::exp(-1.0) + rest)).epsilon(1e-5));
    CHECK(w[3] == Approx(renormalise ? 1.0 / 3 : 1.0 / 40).epsilon(1e-5));
  }
}

}  // namespace quire::testing
