#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace quire {

// Overflow-safe arithmetic on sizes: nothing when the exact result does not fit T.
template <std::integral T>
std::optional<T> checked_add(std::type_identity_t<T> a, T b) {
  T r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
template <std::integral T>
std::optional<T> checked_multiply(std::type_identity_t<T> a, T b) {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// A sum or product of many sizes; once it overflows it stays failed.
class CheckedSize {
 public:
  CheckedSize(std::uint64_t value = 0) : value_(value) {}  // NOLINT: implicit by design
  CheckedSize& operator+=(CheckedSize o) {
    return update(__builtin_add_overflow(value_, o.value_, &value_), o);
  }
  CheckedSize& operator*=(CheckedSize o) {
    return update(__builtin_mul_overflow(value_, o.value_, &value_), o);
  }
  friend CheckedSize operator+(CheckedSize a, CheckedSize b) { return a += b; }
  friend CheckedSize operator*(CheckedSize a, CheckedSize b) { return a *= b; }
  // The value, or nothing if a step overflowed or it does not fit size_t.
  std::optional<std::size_t> get() const {
    if (failed_ || value_ > SIZE_MAX) return std::nullopt;
    return static_cast<std::size_t>(value_);
  }

 private:
  CheckedSize& update(bool overflow, const CheckedSize& o) {
    failed_ = failed_ || overflow || o.failed_;
    return *this;
  }
  std::uint64_t value_;
  bool failed_ = false;
};

template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return a / b + (a % b != 0);
}
template <std::integral T>
constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

}  // namespace quire
