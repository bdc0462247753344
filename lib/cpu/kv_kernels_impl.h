#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/tile_loop.h"
#include "cpu/kv_layout.h"

namespace quire::cpu {

// Keys and values between float32 and a page; see kv_layout.h. One accessor for each stored type.
template <class V>
struct HalfAccess {
  using Element = std::uint16_t;
  static constexpr bool kScaled = false;
  static typename V::Float load(const Element* from, int n) { return V::load_half(from, n); }
  static typename V::Float load(const Element* from) { return V::load_half(from); }
  static void store(Element* to, typename V::Float a) {
    // Beyond the largest half a value is kept finite: an infinite key or value would make NaN.
    const auto limit = V::set(65504.0f);
    V::store_half(to, V::maximum(V::set(-65504.0f), V::minimum(limit, a)));
  }
};
template <class V>
struct BFloat16Access {
  using Element = std::uint16_t;
  static constexpr bool kScaled = false;
  static typename V::Float load(const Element* from, int n) { return V::load_bfloat16(from, n); }
  static typename V::Float load(const Element* from) { return V::load_bfloat16(from); }
  static void store(Element* to, typename V::Float a) { V::store_bfloat16(to, a); }
};
template <class V>
struct FloatAccess {
  using Element = float;
  static constexpr bool kScaled = false;
  static typename V::Float load(const Element* from, int n) { return V::load(from, n); }
  static typename V::Float load(const Element* from) { return V::load(from); }
  static void store(Element* to, typename V::Float a) { V::store(to, a); }
};
template <class V>
struct Int8Access {
  using Element = std::int8_t;
  static constexpr bool kScaled = true;
  static typename V::Float load(const Element* from, int n) { return V::load_int8(from, n); }
  static typename V::Float load(const Element* from) { return V::load_int8(from); }
  static void store(Element* to, typename V::Float a) { V::store_int8(to, a); }
};

// Calls body with the accessor of the type.
template <class V, class Body>
[[gnu::always_inline]] inline void visit_access(KvType type, Body body) {
  switch (type) {
    case KvType::f32:
      return body(FloatAccess<V>{});
    case KvType::f16:
      return body(HalfAccess<V>{});
    case KvType::bf16:
      return body(BFloat16Access<V>{});
    case KvType::int8:
      return body(Int8Access<V>{});
    case KvType::fp8:  // refused by CpuDevice::check_kv
      return;
  }
}

template <class V>
float largest_magnitude(const float* x, int n) {
  auto largest = V::set(0.0f);
  for (int i = 0; i < n; i += 16) {
    const auto a = n - i >= 16 ? V::load(x + i) : V::load(x + i, n - i);
    largest = V::maximum(V::absolute(a), largest);
  }
  return V::largest(largest);
}

// Stores x[i] * factor to element i * stride.
template <class V, class Access>
void write_row(const float* x, float factor, int n, typename Access::Element* to,
               std::ptrdiff_t stride) {
  typename Access::Element codes[16];
  for (int i = 0; i < n; i += 16) {
    const int count = n - i < 16 ? n - i : 16;
    const auto a = count == 16 ? V::load(x + i) : V::load(x + i, count);
    Access::store(codes, V::multiply(a, V::set(factor)));
    for (int j = 0; j < count; ++j) to[(i + j) * stride] = codes[j];
  }
}

template <class V>
void write_key_value(const KvLayout& layout, std::byte* head, int token, const float* key,
                     const float* value) {
  const int n = layout.head_size;
  const auto factor = [&](const float* x, std::size_t scales) {
    if (x == nullptr || layout.type != KvType::int8) return 1.0f;
    const float largest = largest_magnitude<V>(x, n);
    reinterpret_cast<float*>(head + scales)[token] = largest / 127;
    return largest > 0 ? 127 / largest : 0.0f;
  };
  const float key_factor = factor(key, layout.key_scales);
  const float value_factor = factor(value, layout.value_scales);
  visit_access<V>(layout.type, [&](auto access) {
    using Access = decltype(access);
    using Element = typename Access::Element;
    if (key != nullptr) {
      write_row<V, Access>(key, key_factor, n, reinterpret_cast<Element*>(head) + token,
                           layout.page_size);
    }
    if (value != nullptr) {
      write_row<V, Access>(
          value, value_factor, n,
          reinterpret_cast<Element*>(head + layout.values) + static_cast<std::ptrdiff_t>(token) * n,
          1);
    }
  });
}

template <class V>
void read_keys(const KvLayout& layout, const std::byte* head, int token, int count, float* keys) {
  const auto* scales = reinterpret_cast<const float*>(head + layout.key_scales) + token;
  visit_access<V>(layout.type, [&](auto access) {
    using Access = decltype(access);
    constexpr bool scaled = Access::kScaled;
    const auto* from = reinterpret_cast<const typename Access::Element*>(head) + token;
    for (int column = 0; column < count; column += 16) {
      const int n = count - column < 16 ? count - column : 16;
      const auto factor = scaled ? V::load(scales + column, n) : V::set(1.0f);
      for (int i = 0; i < layout.head_size; ++i) {
        auto a = Access::load(from + static_cast<std::ptrdiff_t>(i) * layout.page_size + column, n);
        if (scaled) a = V::multiply(a, factor);
        float* to = keys + static_cast<std::ptrdiff_t>(i) * attention::kKeyBlock + column;
        if (n == 16) {
          V::store(to, a);
        } else {
          V::store(to, a, n);
        }
      }
    }
  });
}

template <class V>
void read_values(const KvLayout& layout, const std::byte* head, int token, int count, int width,
                 float* values) {
  const auto* scales = reinterpret_cast<const float*>(head + layout.value_scales) + token;
  const int n = layout.head_size;
  visit_access<V>(layout.type, [&](auto access) {
    using Access = decltype(access);
    constexpr bool scaled = Access::kScaled;
    const auto* from = reinterpret_cast<const typename Access::Element*>(head + layout.values) +
                       static_cast<std::ptrdiff_t>(token) * n;
    for (int row = 0; row < count; ++row) {
      const auto factor = V::set(scaled ? scales[row] : 1.0f);
      for (int i = 0; i < n; i += 16) {
        auto a =
            Access::load(from + static_cast<std::ptrdiff_t>(row) * n + i, n - i < 16 ? n - i : 16);
        if (scaled) a = V::multiply(a, factor);
        V::store(values + static_cast<std::ptrdiff_t>(row) * width + i, a);
      }
    }
  });
}

}  // namespace quire::cpu
