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
  unroll<Vectors>([&](auto v) QUIRE_ALWAYS_INLINE {
    const std::byte* head = vectors.head[first + v];
    const int token = vectors.token[first + v];
    from[v] = reinterpret_cast<const Element*>(head) + token;
    if constexpr (Access::kScaled) {
      factors[v] = V::load(reinterpret_cast<const float*>(head + layout.key_scales) + token);
    }
  });
  ProductTile<V, Rows, Vectors> tile;
  tile.clear();
  const std::ptrdiff_t stride = layout.page_size;
  for (int i = 0; i < layout.head_size; ++i) {
    tile.add(queries + i, width, [&](auto v) QUIRE_ALWAYS_INLINE {
      const auto k = Access::load(from[v] + i * stride);
      if constexpr (Access::kScaled) return V::multiply(k, factors[v]);
      return k;
    });
  }
  tile.store(scores + 16 * first, attention::kKeyBlock);
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
  const int left = size - 16 * column;  // elements from this column on
  ProductTile<V, Rows, Vectors> tile;
  tile.load(output + 16 * column, width, rescale);
  for (int key = first; key < last; ++key) {
    const std::byte* head = vectors.head[key / 16];
    const int token = vectors.token[key / 16] + key % 16;
    const auto* from = reinterpret_cast<const Element*>(head + layout.values) +
                       static_cast<std::ptrdiff_t>(token) * size + 16 * column;
    auto factor = V::set(1.0f);
    if constexpr (Access::kScaled) {
      factor = V::set(reinterpret_cast<const float*>(head + layout.value_scales)[token]);
    }
    tile.add(weights + key, attention::kKeyBlock, [&](auto v) QUIRE_ALWAYS_INLINE {
      const auto x =
          Vectors > 1 || left >= 16 ? Access::load(from + 16 * v) : Access::load(from, left);
      if constexpr (Access::kScaled) return V::multiply(x, factor);
      return x;
    });
  }
  tile.store(output + 16 * column, width);
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
