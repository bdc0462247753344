#pragma once

#include <cstddef>

#include "attention/tile_loop.h"
#include "cpu/lane_math.h"
#include "cpu/product_tile.h"

namespace quire::cpu {

// The attention products over lanes V. One score is one chain of fma over the head's elements in
// order, one output element one chain over the keys in order: the register tiles change no bit.

// Vectors beside each other in a register tile of that many rows.
template <class V, int Rows>
constexpr int tile_vectors() {
  constexpr int kFitting = V::kAccumulators / Rows;
  constexpr int kVectors = kFitting < V::kTileVectors ? kFitting : V::kTileVectors;
  return kVectors >= 4 ? 4 : kVectors >= 2 ? 2 : 1;
}

// Calls body with Rows = V::kTileRows while that many rows are left, then with the rest.
template <class V, int Rows, class Body>
[[gnu::always_inline]] inline void each_row_tile(int rows, Body body) {
  int row = 0;
  for (; row + Rows <= rows; row += Rows) body.template operator()<Rows>(row);
  if constexpr (Rows > 1) {
    if (row < rows) {
      each_row_tile<V, Rows - 1>(rows - row,
                                 [&]<int Less>(int r) { body.template operator()<Less>(row + r); });
    }
  }
}

template <class V, int Rows, int Vectors>
void score_tile(const float* queries, int head_size, int width, const float* keys, float* scores) {
  ProductTile<V, Rows, Vectors> tile;
  tile.clear();
  for (int i = 0; i < head_size; ++i) {
    tile.add(queries + i, width, [&](auto v) QUIRE_ALWAYS_INLINE {
      return V::load(keys + i * attention::kKeyBlock + 16 * v);
    });
  }
  tile.store(scores, attention::kKeyBlock);
}

template <class V>
void scores(const float* queries, int rows, int head_size, int width, const float* keys, int first,
            int last, float* to) {
  each_row_tile<V, V::kTileRows>(rows, [&]<int Rows>(int row) {
    const float* q = queries + row * width;
    float* s = to + row * attention::kKeyBlock;
    constexpr int kVectors = tile_vectors<V, Rows>();
    int v = first;
    for (; v + kVectors <= last; v += kVectors) {
      score_tile<V, Rows, kVectors>(q, head_size, width, keys + 16 * v, s + 16 * v);
    }
    for (; v < last; ++v) score_tile<V, Rows, 1>(q, head_size, width, keys + 16 * v, s + 16 * v);
  });
}

template <class V>
float softmax_row(float* scores, attention::KeyRange range, int first, int last, float cap,
                  attention::SoftmaxState& state) {
  constexpr int kVectors = attention::kKeyBlock / 16;
  constexpr float kNone = -__builtin_inff();
  using Float = typename V::Float;
  const Float zero = V::set(0.0f), none = V::set(kNone);
  Float s[kVectors];
  unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
    s[v] = none;
    if (v >= first && v < last) s[v] = V::load(scores + 16 * v);
  });
  if (cap > 0) {
    const Float c = V::set(cap);
    unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      s[v] = V::multiply(c, hyperbolic_tangent<V>(V::divide(s[v], c)));
    });
  }
  if (range.first > 0 || range.last < attention::kKeyBlock) {
    unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
      s[v] = V::select_range(range.first - 16 * v, range.last - 16 * v, s[v], none);
    });
  }
  const float block_largest =
      V::largest(V::maximum(V::maximum(s[0], s[1]), V::maximum(s[2], s[3])));
  if (range.first >= range.last || block_largest == kNone) {  // nothing seen: nothing changes
    for (int v = first; v < last; ++v) V::store(scores + 16 * v, zero);
    return 1;
  }
  const float maximum = state.maximum > block_largest ? state.maximum : block_largest;
  const Float subtrahend = V::set(maximum);
  unroll<kVectors>([&](auto v) QUIRE_ALWAYS_INLINE {
    s[v] = exponential<V>(V::subtract(s[v], subtrahend));
    if (v >= first && v < last) V::store(scores + 16 * v, s[v]);
  });
  const float sum = V::sum(V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
  float rescale = 1;
  if (maximum != state.maximum) {
    rescale = V::first(exponential<V>(V::subtract(V::set(state.maximum), subtrahend)));
  }
  state.sum = V::first(V::fma(V::set(state.sum), V::set(rescale), V::set(sum)));
  state.maximum = maximum;
  return rescale;
}

template <class V>
void softmax(float* scores, int rows, const attention::KeyRange* ranges, int first, int last,
             float cap, attention::SoftmaxState* states, float* rescale) {
  for (int row = 0; row < rows; ++row) {
    rescale[row] = softmax_row<V>(scores + row * attention::kKeyBlock, ranges[row], first, last,
                                  cap, states[row]);
  }
}

template <class V, int Rows, int Vectors>
void value_tile(const float* weights, const float* rescale, const float* values, int width,
                int first, int last, float* output) {
  ProductTile<V, Rows, Vectors> tile;
  tile.load(output, width, rescale);
  for (int key = first; key < last; ++key) {
    tile.add(weights + key, attention::kKeyBlock,
             [&](auto v) QUIRE_ALWAYS_INLINE { return V::load(values + key * width + 16 * v); });
  }
  tile.store(output, width);
}

template <class V>
void accumulate(const float* weights, int rows, const float* rescale, const float* values,
                int width, int first, int last, float* output) {
  each_row_tile<V, V::kTileRows>(rows, [&]<int Rows>(int row) {
    const float* w = weights + row * attention::kKeyBlock;
    float* o = output + row * width;
    constexpr int kVectors = tile_vectors<V, Rows>();
    int i = 0;
    for (; i + 16 * kVectors <= width; i += 16 * kVectors) {
      value_tile<V, Rows, kVectors>(w, rescale + row, values + i, width, first, last, o + i);
    }
    for (; i < width; i += 16) {
      value_tile<V, Rows, 1>(w, rescale + row, values + i, width, first, last, o + i);
    }
  });
}

template <class V>
void blend(const float* from, float left, float right, int width, float* to) {
  const auto l = V::set(left), r = V::set(right);
  for (int i = 0; i < width; i += 16) {
    V::store(to + i, V::fma(V::load(from + i), r, V::multiply(V::load(to + i), l)));
  }
}

}  // namespace quire::cpu
