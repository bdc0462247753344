#pragma once

#include <cstddef>

#include "cpu/attention_kernels_impl.h"
#include "cpu/kv_kernels_impl.h"
#include "cpu/row_kernels.h"

namespace quire::cpu {

// The attention products of few rows straight from the pages: each stored vector is converted in a
// register and used by all rows. The chains of fma are those of attention_kernels_impl.h.

template <class V, class Access, int Rows, int Vectors>
void direct_score_tile(const KvLayout& layout, const KvVectors& vectors, const float* queries,
                       int width, int first, float* scores) {
  using Element = typename Access::Element;
  const Element* from[Vectors];
  typename V::Float factors[Vectors];
  typename V::Float sums[Rows][Vectors];
  for (int v = 0; v < Vectors; ++v) {
    const std::byte* head = vectors.head[first + v];
    const int token = vectors.token[first + v];
    from[v] = reinterpret_cast<const Element*>(head) + token;
    if constexpr (Access::kScaled) {
      factors[v] = V::load(reinterpret_cast<const float*>(head + layout.key_scales) + token);
    }
    for (int r = 0; r < Rows; ++r) sums[r][v] = V::set(0.0f);
  }
  for (int i = 0; i < layout.head_size; ++i) {
    typename V::Float k[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      k[v] = Access::load(from[v]);
      if constexpr (Access::kScaled) k[v] = V::multiply(k[v], factors[v]);
      from[v] += layout.page_size;
    }
    for (int r = 0; r < Rows; ++r) {
      const auto q = V::set(queries[r * width + i]);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = V::fma(q, k[v], sums[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) {
      V::store(scores + r * attention::kKeyBlock + 16 * (first + v), sums[r][v]);
    }
  }
}

template <class V>
void direct_scores(const KvLayout& layout, const KvVectors& vectors, const float* queries, int rows,
                   int width, int first, int last, float* scores) {
  visit_access<V>(layout.type, [&](auto access) {
    using Access = decltype(access);
    each_row_tile<V, V::kTileRows>(rows, [&]<int Rows>(int row) {
      constexpr int kVectors = tile_vectors<V, Rows>();
      const float* q = queries + row * width;
      float* s = scores + row * attention::kKeyBlock;
      int v = first;
      for (; v + kVectors <= last; v += kVectors) {
        direct_score_tile<V, Access, Rows, kVectors>(layout, vectors, q, width, v, s);
      }
      for (; v < last; ++v) direct_score_tile<V, Access, Rows, 1>(layout, vectors, q, width, v, s);
    });
  });
}

// Elements [16 * column, 16 * (column + Vectors)) of the output; the last vector may be partial.
template <class V, class Access, int Rows, int Vectors>
void direct_value_tile(const KvLayout& layout, const KvVectors& vectors, const float* weights,
                       const float* rescale, int width, int column, int first, int last,
                       float* output) {
  using Element = typename Access::Element;
  const int size = layout.head_size;
  const int whole = size - 16 * column;  // elements from this column on
  typename V::Float sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    const auto f = V::set(rescale[r]);
    for (int v = 0; v < Vectors; ++v) {
      sums[r][v] = V::multiply(f, V::load(output + r * width + 16 * (column + v)));
    }
  }
  for (int key = first; key < last; ++key) {
    const std::byte* head = vectors.head[key / 16];
    const int token = vectors.token[key / 16] + key % 16;
    const auto* from = reinterpret_cast<const Element*>(head + layout.values) +
                       static_cast<std::ptrdiff_t>(token) * size + 16 * column;
    typename V::Float x[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      x[v] = Vectors > 1 || whole >= 16 ? Access::load(from + 16 * v) : Access::load(from, whole);
      if constexpr (Access::kScaled) {
        const auto* scales = reinterpret_cast<const float*>(head + layout.value_scales);
        x[v] = V::multiply(x[v], V::set(scales[token]));
      }
    }
    for (int r = 0; r < Rows; ++r) {
      const auto w = V::set(weights[r * attention::kKeyBlock + key]);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = V::fma(w, x[v], sums[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) V::store(output + r * width + 16 * (column + v), sums[r][v]);
  }
}

template <class V>
void direct_accumulate(const KvLayout& layout, const KvVectors& vectors, const float* weights,
                       int rows, const float* rescale, int width, int first, int last,
                       float* output) {
  visit_access<V>(layout.type, [&](auto access) {
    using Access = decltype(access);
    each_row_tile<V, V::kTileRows>(rows, [&]<int Rows>(int row) {
      constexpr int kVectors = tile_vectors<V, Rows>();
      const float* w = weights + row * attention::kKeyBlock;
      float* o = output + row * width;
      int column = 0;
      for (; 16 * (column + kVectors) <= layout.head_size; column += kVectors) {
        direct_value_tile<V, Access, Rows, kVectors>(layout, vectors, w, rescale + row, width,
                                                     column, first, last, o);
      }
      for (; 16 * column < width; ++column) {
        direct_value_tile<V, Access, Rows, 1>(layout, vectors, w, rescale + row, width, column,
                                              first, last, o);
      }
    });
  });
}

}  // namespace quire::cpu
