#pragma once

#include "cpu/matmul_unroll.h"

namespace quire::cpu {

// A register tile: Rows sums of products over Vectors vectors of lanes V.
template <class V, int Rows, int Vectors>
struct ProductTile {
  using Float = typename V::Float;
  Float sums[Rows][Vectors];

  // body(row, vector)
  template <class Body>
  QUIRE_ALWAYS_INLINE void each(Body&& body) {
    unroll<Rows>([&](auto r) QUIRE_ALWAYS_INLINE {
      unroll<Vectors>([&](auto v) QUIRE_ALWAYS_INLINE { body(r, v); });
    });
  }
  QUIRE_ALWAYS_INLINE void clear() {
    each([&](auto r, auto v) QUIRE_ALWAYS_INLINE { sums[r][v] = V::set(0.0f); });
  }
  // sums = factors[row] * from[row]
  QUIRE_ALWAYS_INLINE void load(const float* from, int stride, const float* factors) {
    each([&](auto r, auto v) QUIRE_ALWAYS_INLINE {
      sums[r][v] = V::multiply(V::set(factors[r]), V::load(from + r * stride + 16 * v));
    });
  }
  QUIRE_ALWAYS_INLINE void store(float* to, int stride) {
    each([&](auto r, auto v)
             QUIRE_ALWAYS_INLINE { V::store(to + r * stride + 16 * v, sums[r][v]); });
  }
  // sums[row] += weights[row * stride] * vector(v)
  template <class Vector>
  QUIRE_ALWAYS_INLINE void add(const float* weights, int stride, Vector&& vector) {
    Float x[Vectors];
    unroll<Vectors>([&](auto v) QUIRE_ALWAYS_INLINE { x[v] = vector(v); });
    unroll<Rows>([&](auto r) QUIRE_ALWAYS_INLINE {
      const Float w = V::set(weights[r * stride]);
      unroll<Vectors>([&](auto v)
                          QUIRE_ALWAYS_INLINE { sums[r][v] = V::fma(w, x[v], sums[r][v]); });
    });
  }
};

}  // namespace quire::cpu
