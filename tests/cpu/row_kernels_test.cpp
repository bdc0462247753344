#include <cmath>
#include <limits>

#include "cpu/device_fixture.h"
#include "tensor/blocks.h"

namespace quire {
namespace {

using Gate = void (*cpu::RowKernels::*)(float*, const float*, int);

double relative_error(float got, double want) {
  return std::fabs(got - want) / (std::fabs(want) + 1e-30);
}

TEST_CASE("activations follow their float64 formulas over the whole range") {
  std::vector<float> x;
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 0.01f);
  for (const float big : {50.0f, 90.0f, 1e4f, 1e20f}) {
    x.push_back(big);
    x.push_back(-big);
  }
  const std::vector<float> ones(x.size(), 1.0f), zeros(x.size(), 0.0f);
  const int n = static_cast<int>(x.size());
  for (const cpu::Isa isa : test::row_kernel_isas()) {
    INFO(test::device_name(isa));
    const cpu::RowKernels& kernels = cpu::row_kernels(isa);
    std::vector<float> silu = x, gelu = x, swiglu = x, cap = x;
    kernels.silu(silu.data(), ones.data(), n);
    kernels.gelu_tanh(gelu.data(), ones.data(), n);
    kernels.swiglu_clamped(swiglu.data(), zeros.data(), n);
    kernels.soft_cap(cap.data(), 2.0f, 30.0f, n);
    double worst[4] = {};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], g = std::min(v, 7.0);
      const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      // Below -80 the exact value is as good as zero, and so must the result be.
      const auto note = [&](double& to, float got, double want) {
        const double error =
            std::fabs(want) < 1e-30 ? std::fabs(got - want) * 1e10 : relative_error(got, want);
        if (!(error <= to)) to = error;
      };
      note(worst[0], silu[i], v / (1 + std::exp(-v)));
      note(worst[1], gelu[i], v / (1 + std::exp(-2 * u)));
      note(worst[2], swiglu[i], g / (1 + std::exp(-1.702 * g)));
      note(worst[3], cap[i], 30 * std::tanh(2 * v / 30));
    }
    CHECK(worst[0] < 5e-7);
    CHECK(worst[1] < 3e-5);  // the argument of exp has a relative error, so large ones count more
    CHECK(worst[2] < 5e-6);
    CHECK(worst[3] < 5e-7);
  }
}

TEST_CASE("all instruction sets compute row kernels to the same bits, at every length") {
  std::mt19937 random(11);
  for (const int n : {1, 2, 8, 15, 16, 17, 31, 64, 65, 100, 576}) {
    const auto size = static_cast<std::size_t>(n);
    const auto x = test::random_floats(size, random, 4), y = test::random_floats(size, random, 4);
    const auto w = test::random_floats(size, random), z = test::random_floats(size, random);
    std::vector<std::vector<float>> results;
    for (const cpu::Isa isa : test::row_kernel_isas()) {
      const cpu::RowKernels& kernels = cpu::row_kernels(isa);
      std::vector<float> all;
      const auto keep = [&](const std::vector<float>& part) {
        all.insert(all.end(), part.begin(), part.end());
      };
      const float squares = kernels.sum_of_squares(x.data(), n);
      double exact = 0;
      for (const float v : x) exact += static_cast<double>(v) * v;
      CHECK(relative_error(squares, exact) < 1e-6);
      all.push_back(squares);
      std::vector<float> to(size, NAN);
      kernels.normalise(x.data(), 0.3f, w.data(), n, to.data());
      keep(to);
      kernels.normalise(x.data(), 0.3f, nullptr, n, to.data());
      keep(to);
      kernels.scale(x.data(), 1.7f, n, to.data());
      keep(to);
      kernels.add_scaled(y.data(), 0.9f, n, to.data());
      keep(to);
      kernels.add_normed(y.data(), 0.9f, w.data(), 1.1f, n, to.data());
      keep(to);
      std::vector<float> halves = x;
      kernels.rotate(halves.data(), w.data(), z.data(), n / 2);
      keep(halves);
      for (auto gate : {&cpu::RowKernels::silu, &cpu::RowKernels::gelu_tanh,
                        &cpu::RowKernels::swiglu_clamped}) {
        std::vector<float> g = x;
        (kernels.*gate)(g.data(), y.data(), n);
        keep(g);
      }
      std::vector<float> capped = x;
      kernels.soft_cap(capped.data(), 1.5f, 3.0f, n);
      keep(capped);
      results.push_back(all);
      INFO(test::device_name(isa) << " length " << n);
      CHECK(test::same_bits(results.front(), all));
    }
  }
}

TEST_CASE("kernels write nothing behind their row") {
  for (const cpu::Isa isa : test::row_kernel_isas()) {
    const cpu::RowKernels& kernels = cpu::row_kernels(isa);
    for (int n = 1; n < 40; ++n) {
      std::vector<float> x(64, 1.0f), to(64, -3.0f), gate(64, 2.0f);
      kernels.scale(x.data(), 2, n, to.data());
      kernels.add_scaled(x.data(), 2, n, to.data());
      kernels.normalise(x.data(), 2, x.data(), n, to.data());
      kernels.silu(gate.data(), x.data(), n);
      for (std::size_t i = static_cast<std::size_t>(n); i < 64; ++i) {
        CHECK((to[i] == -3.0f && gate[i] == 2.0f));
      }
    }
  }
}

TEST_CASE("keys and values in pairs lie beside their neighbours, rounded to bf16") {
  std::mt19937 random(13);
  for (const cpu::Isa isa : test::row_kernel_isas()) {
    if (cpu::pair_kernels(isa) == nullptr) continue;
    const std::unique_ptr<Device> device = test::open_test_device(isa, 1);
    for (const int size : {17, 64}) {
      const auto n = static_cast<std::size_t>(size);
      test::PagePool pool(*device, {1, 1, size, 0}, KvType::bf16, 8, 1);
      std::vector<std::vector<float>> keys, values;
      for (int token = 0; token < 8; ++token) {
        keys.push_back(test::random_floats(n, random, 300));
        values.push_back(test::random_floats(n, random, 300));
        pool.write(isa, {0}, token, keys.back().data(), values.back().data());
      }
      const cpu::KvLayout layout = cpu::paired_kv_layout(8, size);
      const auto* stored = reinterpret_cast<const std::uint16_t*>(pool.kv().slab(0));
      const auto* stored_values =
          reinterpret_cast<const std::uint16_t*>(pool.kv().slab(0) + layout.values);
      for (std::size_t token = 0; token < 8; ++token) {
        for (std::size_t i = 0; i < n; ++i) {
          INFO(test::device_name(isa) << " size " << size << " token " << token << " " << i);
          CHECK(stored[(i / 2 * 8 + token) * 2 + i % 2] == float_to_bfloat16(keys[token][i]));
          CHECK(stored_values[(token / 2 * n + i) * 2 + token % 2] ==
                float_to_bfloat16(values[token][i]));
        }
        if (n % 2 == 1) CHECK(stored[(n / 2 * 8 + token) * 2 + 1] == 0);
      }
    }
  }
}

TEST_CASE("stored keys and values round like the scalar conversions, and halves stay finite") {
  std::mt19937 random(12);
  std::vector<float> x = test::random_floats(64, random, 300);
  x[3] = 1e6f;
  x[4] = -1e6f;
  x[5] = 1e-7f;
  x[6] = 65519.0f;
  for (const cpu::Isa isa : test::row_kernel_isas()) {
    const std::unique_ptr<Device> device = test::open_test_device(isa, 1, Compute::f32);
    for (const KvType type : {KvType::f16, KvType::bf16, KvType::f32}) {
      test::PagePool pool(*device, {1, 1, 64, 0}, type, 8, 1);
      pool.write(isa, {0}, 5, x.data(), x.data());
      const cpu::KvLayout layout = cpu::kv_layout(type, 8, 64);
      std::vector<float> keys(64 * attention::kKeyBlock), values(64);
      cpu::row_kernels(isa).read_keys(layout, pool.kv().slab(0), 0, 8, keys.data());
      cpu::row_kernels(isa).read_values(layout, pool.kv().slab(0), 5, 1, 64, values.data());
      for (std::size_t i = 0; i < 64; ++i) {
        float want = x[i];
        if (type == KvType::f16) {
          want = half_to_float(float_to_half(std::clamp(x[i], -65504.0f, 65504.0f)));
        }
        if (type == KvType::bf16) want = bfloat16_to_float(float_to_bfloat16(x[i]));
        INFO(test::device_name(isa) << " type " << static_cast<int>(type) << " element " << i);
        CHECK(keys[i * attention::kKeyBlock + 5] == want);
        CHECK(values[i] == want);
      }
    }
  }
}

}  // namespace
}  // namespace quire
