#pragma once

namespace quire::cpu {

// e^x: relative error below 1.5e-7. 0 below the least normal result; NaN stays NaN. Cody-Waite
// reduction and the polynomial of Cephes' expf.
template <class V>
inline typename V::Float exponential(typename V::Float x) {
  const auto lowest = V::set(-87.33654f);
  const auto bounded = V::maximum(lowest, V::minimum(V::set(88.37626f), x));
  const auto magic = V::set(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const auto shifted = V::fma(bounded, V::set(1.44269504f), magic);
  const auto n = V::subtract(shifted, magic);
  auto r = V::fma(n, V::set(-0.693359375f), bounded);
  r = V::fma(n, V::set(2.12194440e-4f), r);
  auto p = V::set(1.9875691500e-4f);
  p = V::fma(p, r, V::set(1.3981999507e-3f));
  p = V::fma(p, r, V::set(8.3334519073e-3f));
  p = V::fma(p, r, V::set(4.1665795894e-2f));
  p = V::fma(p, r, V::set(1.6666665459e-1f));
  p = V::fma(p, r, V::set(5.0000001201e-1f));
  p = V::fma(V::multiply(r, r), p, V::add(r, V::set(1.0f)));
  return V::select_less(x, lowest, V::set(0.0f), V::multiply(p, V::power_of_two(shifted)));
}

// 1 / (1 + e^-x)
template <class V>
inline typename V::Float sigmoid(typename V::Float x) {
  const auto one = V::set(1.0f);
  return V::divide(one, V::add(one, exponential<V>(V::subtract(V::set(0.0f), x))));
}

// x / (1 + e^-y), which is x * sigmoid(y) with one rounding less.
template <class V>
inline typename V::Float times_sigmoid(typename V::Float x, typename V::Float y) {
  const auto e = exponential<V>(V::subtract(V::set(0.0f), y));
  return V::divide(x, V::add(V::set(1.0f), e));
}

// tanh(x): Cephes' polynomial near zero, 1 - 2 / (e^2|x| + 1) elsewhere.
template <class V>
inline typename V::Float hyperbolic_tangent(typename V::Float x) {
  const auto magnitude = V::absolute(x);
  const auto square = V::multiply(x, x);
  auto p = V::set(-5.70498872745e-3f);
  p = V::fma(p, square, V::set(2.06390887954e-2f));
  p = V::fma(p, square, V::set(-5.37397155531e-2f));
  p = V::fma(p, square, V::set(1.33314422036e-1f));
  p = V::fma(p, square, V::set(-3.33332819422e-1f));
  const auto near = V::fma(V::multiply(p, square), x, x);
  const auto one = V::set(1.0f);
  const auto e = exponential<V>(V::add(magnitude, magnitude));
  const auto far = V::subtract(one, V::divide(V::set(2.0f), V::add(e, one)));
  const auto zero = V::set(0.0f);
  const auto signed_far = V::select_less(x, zero, V::subtract(zero, far), far);
  return V::select_less(magnitude, V::set(0.625f), near, signed_far);
}

// x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x / 2 (1 + tanh u).
template <class V>
inline typename V::Float gelu_tanh(typename V::Float x) {
  const auto cube = V::multiply(V::multiply(x, x), x);
  const auto inner = V::fma(V::set(0.044715f), cube, x);
  return times_sigmoid<V>(x, V::multiply(V::set(1.5957691216f), inner));
}

}  // namespace quire::cpu
