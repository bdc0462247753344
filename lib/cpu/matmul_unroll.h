#pragma once

#include <utility>

namespace quire::cpu {

#define QUIRE_ALWAYS_INLINE __attribute__((always_inline))

// A constant that is passed as an argument.
template <int value>
struct Index {
  static constexpr int kValue = value;
  QUIRE_ALWAYS_INLINE constexpr operator int() const { return value; }
};

template <class Body, int... indices>
QUIRE_ALWAYS_INLINE inline void unroll_sequence(Body& body,
                                                std::integer_sequence<int, indices...>) {
  (body(Index<indices>()), ...);
}

// body(Index<0>()) ... body(Index<count - 1>()), unrolled at every level of optimisation, so that
// arrays of vectors that it indexes stay in registers. The body must be QUIRE_ALWAYS_INLINE too.
template <int count, class Body>
QUIRE_ALWAYS_INLINE inline void unroll(Body&& body) {
  unroll_sequence(body, std::make_integer_sequence<int, count>());
}

// The compiler takes the pointer for another one from here on: what is read through it is read at
// its place, not earlier and kept in a register that the sums need.
template <class T>
QUIRE_ALWAYS_INLINE inline void renew(T*& pointer) {
  asm volatile("" : "+r"(pointer));
}

}  // namespace quire::cpu
