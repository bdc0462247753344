#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/lane_math.h"
#include "cpu/matmul_unroll.h"

namespace quire::cpu {

// The row kernels over lanes V; instantiated once in each instruction set's object file. Nothing
// here may be an inline function that another object file shares: V is in every signature.

template <class V, class Body>
[[gnu::always_inline]] inline void each_vector(int n, Body body) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    body([&](const float* from) { return V::load(from + i); },
         [&](float* to, typename V::Float a) { V::store(to + i, a); });
  }
  if (i < n) {
    body([&](const float* from) { return V::load(from + i, n - i); },
         [&](float* to, typename V::Float a) { V::store(to + i, a, n - i); });
  }
}

template <class V>
float sum_of_squares(const float* x, int n) {
  typename V::Float sums[4];
  unroll<4>([&](auto v) QUIRE_ALWAYS_INLINE { sums[v] = V::set(0.0f); });
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    unroll<4>([&](auto v) QUIRE_ALWAYS_INLINE {
      const auto a = V::load(x + i + 16 * v);
      sums[v] = V::fma(a, a, sums[v]);
    });
  }
  unroll<4>([&](auto v) QUIRE_ALWAYS_INLINE {
    const int left = n - i - 16 * v;
    if (left <= 0) return;
    const auto a = left >= 16 ? V::load(x + i + 16 * v) : V::load(x + i + 16 * v, left);
    sums[v] = V::fma(a, a, sums[v]);
  });
  return V::sum(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
}

template <class V>
void normalise(const float* x, float factor, const float* weight, int n, float* to) {
  const auto f = V::set(factor);
  each_vector<V>(n, [&](auto load, auto store) {
    auto a = V::multiply(load(x), f);
    if (weight != nullptr) a = V::multiply(a, load(weight));
    store(to, a);
  });
}

template <class V>
void scale(const float* x, float factor, int n, float* to) {
  const auto f = V::set(factor);
  each_vector<V>(n, [&](auto load, auto store) { store(to, V::multiply(load(x), f)); });
}

template <class V>
void add_scaled(const float* x, float factor, int n, float* to) {
  const auto f = V::set(factor);
  each_vector<V>(n, [&](auto load, auto store) { store(to, V::fma(load(x), f, load(to))); });
}

template <class V>
void add_normed(const float* x, float factor, const float* weight, float scale, int n, float* to) {
  const auto f = V::set(factor), g = V::set(scale);
  each_vector<V>(n, [&](auto load, auto store) {
    const auto normed = V::multiply(V::multiply(load(x), f), load(weight));
    store(to, V::fma(normed, g, load(to)));
  });
}

template <class V>
void rotate(float* x, const float* cosine, const float* sine, int half) {
  float* y = x + half;
  each_vector<V>(half, [&](auto load, auto store) {
    const auto a = load(x), b = load(y), c = load(cosine), s = load(sine);
    store(x, V::subtract(V::multiply(a, c), V::multiply(b, s)));
    store(y, V::add(V::multiply(b, c), V::multiply(a, s)));
  });
}

template <class V>
void silu(float* gate, const float* up, int n) {
  each_vector<V>(n, [&](auto load, auto store) {
    const auto g = load(gate);
    store(gate, V::multiply(times_sigmoid<V>(g, g), load(up)));
  });
}

template <class V>
void gelu_tanh_times(float* gate, const float* up, int n) {
  each_vector<V>(n, [&](auto load, auto store) {
    store(gate, V::multiply(gelu_tanh<V>(load(gate)), load(up)));
  });
}

// gpt-oss: (up + 1) * gate * sigmoid(1.702 * gate), gate at most 7, up within +-7.
template <class V>
void swiglu_clamped(float* gate, const float* up, int n) {
  const auto limit = V::set(7.0f);
  each_vector<V>(n, [&](auto load, auto store) {
    const auto g = V::minimum(limit, load(gate));
    const auto u = V::maximum(V::set(-7.0f), V::minimum(limit, load(up)));
    const auto activated = times_sigmoid<V>(g, V::multiply(g, V::set(1.702f)));
    store(gate, V::multiply(V::add(u, V::set(1.0f)), activated));
  });
}

template <class V>
void soft_cap(float* x, float factor, float cap, int n) {
  const auto f = V::set(factor), c = V::set(cap);
  each_vector<V>(n, [&](auto load, auto store) {
    store(x, V::multiply(c, hyperbolic_tangent<V>(V::divide(V::multiply(load(x), f), c))));
  });
}

}  // namespace quire::cpu
