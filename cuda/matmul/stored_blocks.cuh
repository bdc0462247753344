#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "tensor/dtype.h"

// Device readers of ggml's stored blocks (ggml-org/ggml, src/ggml-common.h, src/ggml-quants.c): for
// element i of a block at b its code, and the scale and minimum that apply to it. Blocks may lie at
// any address, so everything is read in bytes.
namespace quire::cuda {

using Byte = std::uint8_t;

__device__ inline std::uint32_t stored_u16(const Byte* b) {
  return b[0] | static_cast<std::uint32_t>(b[1]) << 8;
}
__device__ inline float stored_half(const Byte* b) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(stored_u16(b))));
}
__device__ inline std::uint32_t stored_u32(const Byte* b) {
  return stored_u16(b) | stored_u16(b + 2) << 16;
}

__device__ inline int table_value(DType type, int code) {
  constexpr std::int8_t iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
  constexpr std::int8_t mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return type == DType::mxfp4 ? mxfp4[code] : iq4[code];
}

// The nibble of element i (0 ... 31) in 16 bytes: first all low nibbles, then all high ones.
__device__ inline int split_nibble(const Byte* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

// The nibble of element i (0 ... 255) of Q4_K and Q5_K: 64 elements to 32 bytes.
__device__ inline int k_nibble(const Byte* codes, int i) {
  return codes[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

// The two bits of element i (0 ... 255) of Q2_K and Q3_K.
__device__ inline int k_two_bits(const Byte* codes, int i) {
  return codes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

// The code of element i; for Q8_0 the byte as it is.
__device__ inline int stored_code(DType type, const Byte* b, int i) {
  switch (type) {
    case DType::q8_0:
      return b[2 + i];
    case DType::q4_0:
    case DType::iq4_nl:
      return split_nibble(b + 2, i);
    case DType::q4_1:
      return split_nibble(b + 4, i);
    case DType::mxfp4:
      return split_nibble(b + 1, i);
    case DType::q5_0:
      return split_nibble(b + 6, i) | (stored_u32(b + 2) >> i & 1) << 4;
    case DType::q5_1:
      return split_nibble(b + 8, i) | (stored_u32(b + 4) >> i & 1) << 4;
    case DType::q2_k:
      return k_two_bits(b + 16, i);
    case DType::q3_k:
      return k_two_bits(b + 32, i) | (b[i % 32] >> (i / 32) & 1) << 2;
    case DType::q4_k:
      return k_nibble(b + 16, i);
    case DType::q5_k:
      return k_nibble(b + 48, i) | (b[16 + i % 32] >> (i / 32) & 1) << 4;
    case DType::q6_k: {
      const int half = i / 128, r = i / 32 % 4, l = i % 32;
      const int low = b[64 * half + 32 * (r & 1) + l] >> (r < 2 ? 0 : 4) & 15;
      return low | (b[128 + 32 * half + l] >> (2 * r) & 3) << 4;
    }
    case DType::iq4_xs:
      return split_nibble(b + 8 + i / 32 * 16, i % 32);
    default:
      return 0;
  }
}

// A weight is scale * (code - bias) + minimum, rounded after the product and after the sum, or
// scale * table_value(code).
struct StoredScale {
  float scale = 0;
  float minimum = 0;
  int bias = 0;
};

__device__ inline StoredScale stored_scale(DType type, const Byte* b, int i) {
  switch (type) {
    case DType::q8_0:
    case DType::iq4_nl:
      return {stored_half(b), 0, 0};
    case DType::q4_0:
      return {stored_half(b), 0, 8};
    case DType::q5_0:
      return {stored_half(b), 0, 16};
    case DType::q4_1:
    case DType::q5_1:
      return {stored_half(b), stored_half(b + 2), 0};
    case DType::mxfp4: {
      const std::uint32_t bits =
          b[0] < 2 ? 0x00200000u << b[0] : static_cast<std::uint32_t>(b[0] - 1) << 23;
      return {__uint_as_float(bits), 0, 0};
    }
    case DType::q2_k: {
      const int packed = b[i / 16];
      return {__fmul_rn(stored_half(b + 80), static_cast<float>(packed & 15)),
              -__fmul_rn(stored_half(b + 82), static_cast<float>(packed >> 4)), 0};
    }
    case DType::q3_k: {
      const int r = i / 16;
      const int low = r < 8 ? b[96 + r] & 15 : b[96 + r - 8] >> 4;
      const int packed = low | (b[104 + r % 4] >> (2 * (r / 4)) & 3) << 4;
      return {__fmul_rn(stored_half(b + 108), static_cast<float>(packed - 32)), 0, 4};
    }
    case DType::q4_k:
    case DType::q5_k: {
      const Byte* p = b + 4;
      const int j = i / 32;
      const int scale = j < 4 ? p[j] & 63 : (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
      const int minimum = j < 4 ? p[j + 4] & 63 : p[j + 4] >> 4 | p[j] >> 6 << 4;
      return {__fmul_rn(stored_half(b), static_cast<float>(scale)),
              -__fmul_rn(stored_half(b + 2), static_cast<float>(minimum)), 0};
    }
    case DType::q6_k: {
      const auto factor = static_cast<std::int8_t>(b[192 + i / 16]);
      return {__fmul_rn(stored_half(b + 208), static_cast<float>(factor)), 0, 32};
    }
    case DType::iq4_xs: {
      const int j = i / 32;
      const int packed = (b[4 + j / 2] >> (4 * (j % 2)) & 15) | (stored_u16(b + 2) >> (2 * j) & 3)
                                                                    << 4;
      return {__fmul_rn(stored_half(b), static_cast<float>(packed - 32)), 0, 0};
    }
    default:
      return {};
  }
}

__device__ inline bool has_table(DType type) {
  return type == DType::iq4_nl || type == DType::iq4_xs || type == DType::mxfp4;
}

// Element `column` of a stored row, bit for bit as the host's dequantise().
__device__ inline float stored_value(DType type, int block, int block_bytes, const Byte* row,
                                     std::int64_t column) {
  const Byte* b = row + column / block * block_bytes;
  const int i = static_cast<int>(column % block);
  switch (type) {
    case DType::f32:
      return __uint_as_float(stored_u32(b));
    case DType::f16:
      return stored_half(b);
    case DType::bf16:
      return __uint_as_float(stored_u16(b) << 16);
    default:
      break;
  }
  const int code = stored_code(type, b, i);
  const StoredScale s = stored_scale(type, b, i);
  if (has_table(type)) return __fmul_rn(s.scale, static_cast<float>(table_value(type, code)));
  const int value = type == DType::q8_0 ? static_cast<std::int8_t>(code) : code - s.bias;
  const float product = __fmul_rn(s.scale, static_cast<float>(value));
  const bool plain = type == DType::q8_0 || type == DType::q4_0 || type == DType::q5_0 ||
                     type == DType::q3_k || type == DType::q6_k;
  return plain ? product : __fadd_rn(product, s.minimum);
}

}  // namespace quire::cuda
