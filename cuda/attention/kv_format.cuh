#pragma once

#include <cstdint>

#include <quire/engine_options.h>

#include "attention/mma.cuh"

namespace quire::cuda {

// How keys and values of a type become operands of the tensor cores. A "pair" is 16 columns of the
// result (two 8-column tiles): of keys for scores, of the head for the output.
//   load_keys: pair of 16 keys x 16 head dimensions; load_values: 16 keys x pair of 16 dimensions.
// Both give {b0, b1} of the first tile, then of the second. `address`: of the 16 bytes that the
// lane has to name, which are chunk key_chunk() of row key_row() of those columns; so for values,
// unless they are transposed.
template <KvType kType>
struct KvFormat;

// The lane's place among rows `pitch` bytes apart; a constant leads on to other columns and rows,
// for values value_place().
template <class Format>
__device__ inline unsigned pitched_key(int lane, int pitch) {
  return Format::key_row(lane) * pitch + Format::key_chunk(lane) * 16;
}
template <class Format>
__device__ inline unsigned pitched_value(int lane, int pitch) {
  if constexpr (Format::kTransposedValues)
    return Format::value_lane(lane);
  else
    return Format::value_row(lane) * pitch + Format::value_chunk(lane) * 16;
}

// Where 16 values x pair of 16 dimensions are: values are rows, as keys are.
template <int kBytes>
struct ValueRows {
  static constexpr bool kTransposedValues = false;
  __device__ static int value_place(int step, int pair, int pitch, int) {
    return step * 16 * pitch + pair * 16 * kBytes;
  }
};

template <class Element>
struct KvFormat16 : ValueRows<2> {
  using Operand = Element;
  static constexpr int kBytes = 2;
  static constexpr bool kScaled = false;
  static constexpr bool kInterleaved = false;  // a lane's two columns are neighbours

  __device__ static int key_row(int lane) { return (lane & 7) + (lane >> 4) * 8; }
  __device__ static int key_chunk(int lane) { return (lane >> 3) & 1; }
  __device__ static int value_row(int lane) { return lane & 15; }
  __device__ static int value_chunk(int lane) { return lane >> 4; }
  __device__ static void load_keys(unsigned (&to)[4], unsigned address) {
    load_matrices(to, address);
  }
  __device__ static void load_values(unsigned (&to)[4], unsigned address) {
    load_matrices_transposed(to, address);
  }
  // Column of the pair that element `e` (0, 1) of tile `tile` (0, 1) of a lane stands for.
  __device__ static int column(int lane, int tile, int e) { return tile * 8 + (lane & 3) * 2 + e; }
  // Where two neighbouring dimensions 2 i, 2 i + 1 of a query's 16 go (in pairs), so that they meet
  // the keys' dimensions.
  __device__ static int query_pair(int i) { return i; }
};

template <>
struct KvFormat<KvType::bf16> : KvFormat16<__nv_bfloat16> {};
template <>
struct KvFormat<KvType::f16> : KvFormat16<__half> {};

// 8-bit integers are widened to bf16, which holds them exactly. ldmatrix moves two of them as one
// element, so that a lane gets four neighbouring dimensions of a key and two of a value: dimensions
// of the query, and columns of the output, are permuted within each 16 to match.
template <>
struct KvFormat<KvType::int8> : ValueRows<1> {
  using Operand = __nv_bfloat16;
  static constexpr int kBytes = 1;
  static constexpr bool kScaled = true;
  static constexpr bool kInterleaved = true;

  __device__ static int key_row(int lane) { return lane & 15; }
  __device__ static int key_chunk(int) { return 0; }
  __device__ static int value_row(int lane) { return lane & 15; }
  __device__ static int value_chunk(int) { return 0; }

  // Two bytes of a word, chosen by `selector`, to two bf16. 0x4300 is 128, with the low seven bits
  // as units; a negative byte is its low seven bits less 128.
  template <unsigned kSelector>
  __device__ static unsigned widen(unsigned word) {
    const unsigned bytes = __byte_perm(word, 0, kSelector);
    const unsigned units = (bytes & 0x007f007fu) | 0x43004300u;
    const unsigned bias = (bytes & 0x00800080u) | 0x43004300u;
    const __nv_bfloat162 difference = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&units),
                                              *reinterpret_cast<const __nv_bfloat162*>(&bias));
    return *reinterpret_cast<const unsigned*>(&difference);
  }
  __device__ static void load_keys(unsigned (&to)[4], unsigned address) {
    unsigned words[2];
    load_matrices(words, address);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      to[2 * tile] = widen<0x4140>(words[tile]);
      to[2 * tile + 1] = widen<0x4342>(words[tile]);
    }
  }
  __device__ static void load_values(unsigned (&to)[4], unsigned address) {
    unsigned words[2];
    load_matrices_transposed(words, address);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to[half] = widen<0x4240>(words[half]);
      to[2 + half] = widen<0x4341>(words[half]);
    }
  }
  __device__ static int column(int lane, int tile, int e) {
    return (lane & 3) * 4 + 2 * e + tile;
  }
  __device__ static int query_pair(int i) {
    return (i & 1) * 4 + i / 2;
  }
};

// e4m3 is widened to bf16, which holds it exactly. Keys are as those of int8. Values lie as the
// pages have them, [16 keys' box][dimension][16], in the order of fp8_slot(): a lane's four bytes
// are the four keys that it has of 16.
template <>
struct KvFormat<KvType::fp8> {
  using Operand = __nv_bfloat16;
  static constexpr int kBytes = 1;
  static constexpr bool kScaled = true;
  static constexpr bool kInterleaved = false;
  static constexpr bool kTransposedValues = true;

  __device__ static int key_row(int lane) { return lane & 15; }
  __device__ static int key_chunk(int) { return 0; }
  __device__ static unsigned value_lane(int lane) { return (lane & 15) * 16; }
  __device__ static int value_place(int step, int pair, int, int width) {
    return step * 16 * width + pair * 16 * 16;
  }

  // Two bytes of a word, chosen by `selector`, to two bf16: with exponent and fraction in place the
  // exponent's bias is wrong by 120. All bytes give finite numbers.
  template <unsigned kSelector>
  __device__ static unsigned widen(unsigned word) {
    const unsigned bytes = __byte_perm(word, 0, kSelector);
    const unsigned small = (bytes & 0x80008000u) | ((bytes >> 4) & 0x07f007f0u);
    const unsigned power = 0x7b807b80u;  // 2^120
    const __nv_bfloat162 product = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&small),
                                           *reinterpret_cast<const __nv_bfloat162*>(&power));
    return *reinterpret_cast<const unsigned*>(&product);
  }
  __device__ static void widen_words(unsigned (&to)[4], const unsigned (&words)[2]) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      to[2 * tile] = widen<0x1404>(words[tile]);
      to[2 * tile + 1] = widen<0x3424>(words[tile]);
    }
  }
  __device__ static void load_keys(unsigned (&to)[4], unsigned address) {
    unsigned words[2];
    load_matrices(words, address);
    widen_words(to, words);
  }
  __device__ static void load_values(unsigned (&to)[4], unsigned address) {
    unsigned words[2];
    load_matrices(words, address);
    widen_words(to, words);
  }
  __device__ static int column(int lane, int tile, int e) {
    return tile * 8 + (lane & 3) * 2 + e;
  }
  __device__ static int query_pair(int i) {
    return (i & 1) * 4 + i / 2;
  }
};

}  // namespace quire::cuda
