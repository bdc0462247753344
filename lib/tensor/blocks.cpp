// The formats and formulas are those of ggml-org/ggml, src/ggml-common.h and src/ggml-quants.c. The
// order of the multiplications is theirs too, so that the results are equal bit for bit.
#include "tensor/blocks.h"

#include <bit>
#include <cstring>

namespace quire {
namespace {

using Byte = std::uint8_t;

// The values of the 4-bit codes of IQ4_NL and IQ4_XS, and of MXFP4 (doubled).
constexpr std::int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::int8_t kMxfp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <class T>
T load(const Byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

float half_at(const Byte* from) {
  return half_to_float(load<std::uint16_t>(from));
}

// Half of 2^(exponent - 127), as a scale for doubled values; ggml's reading, also of 0, 1 and 255.
float half_power_of_two(Byte exponent) {
  const std::uint32_t bits =
      exponent < 2 ? 0x00200000u << exponent : static_cast<std::uint32_t>(exponent - 1) << 23;
  return std::bit_cast<float>(bits);
}

// Each function below expands one block of its format at `b` to `to`.

void f32(const Byte* b, float* to) {
  *to = load<float>(b);
}
void f16(const Byte* b, float* to) {
  *to = half_at(b);
}
void bf16(const Byte* b, float* to) {
  *to = bfloat16_to_float(load<std::uint16_t>(b));
}
void u8(const Byte* b, float* to) {
  *to = *b;
}

void q8_0(const Byte* b, float* to) {
  const float d = half_at(b);
  for (int j = 0; j < 32; ++j) to[j] = static_cast<float>(static_cast<std::int8_t>(b[2 + j])) * d;
}

void q4_0(const Byte* b, float* to) {
  const float d = half_at(b);
  const Byte* codes = b + 2;
  for (int j = 0; j < 16; ++j) {
    to[j] = static_cast<float>((codes[j] & 15) - 8) * d;
    to[j + 16] = static_cast<float>((codes[j] >> 4) - 8) * d;
  }
}

void q4_1(const Byte* b, float* to) {
  const float d = half_at(b), m = half_at(b + 2);
  const Byte* codes = b + 4;
  for (int j = 0; j < 16; ++j) {
    to[j] = static_cast<float>(codes[j] & 15) * d + m;
    to[j + 16] = static_cast<float>(codes[j] >> 4) * d + m;
  }
}

// The 5-bit code of element j (0 ... 31): a nibble, and bit j of `high`.
int five_bits(const Byte* nibbles, std::uint32_t high, int j) {
  const int low = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
  return low | static_cast<int>(high >> j & 1) << 4;
}

void q5_0(const Byte* b, float* to) {
  const float d = half_at(b);
  const auto high = load<std::uint32_t>(b + 2);
  for (int j = 0; j < 32; ++j) to[j] = static_cast<float>(five_bits(b + 6, high, j) - 16) * d;
}

void q5_1(const Byte* b, float* to) {
  const float d = half_at(b), m = half_at(b + 2);
  const auto high = load<std::uint32_t>(b + 4);
  for (int j = 0; j < 32; ++j) to[j] = static_cast<float>(five_bits(b + 8, high, j)) * d + m;
}

void iq4_nl(const Byte* b, float* to) {
  const float d = half_at(b);
  const Byte* codes = b + 2;
  for (int j = 0; j < 16; ++j) {
    to[j] = d * kNonLinear[codes[j] & 15];
    to[j + 16] = d * kNonLinear[codes[j] >> 4];
  }
}

void mxfp4(const Byte* b, float* to) {
  const float d = half_power_of_two(b[0]);
  const Byte* codes = b + 1;
  for (int j = 0; j < 16; ++j) {
    to[j] = kMxfp4Doubled[codes[j] & 15] * d;
    to[j + 16] = kMxfp4Doubled[codes[j] >> 4] * d;
  }
}

// In the 2- and 3-bit formats, 16 runs of 16 elements have a scale each. Run r is in half r / 8;
// its codes are two bits at the same shift in 16 neighbouring bytes.
struct TwoBitRun {
  const Byte* codes;
  int shift;
  explicit TwoBitRun(const Byte* all, int r)
      : codes(all + r / 8 * 32 + r % 2 * 16), shift(r % 8 / 2 * 2) {}
  int code(int l) const { return codes[l] >> shift & 3; }
};

void q2_k(const Byte* b, float* to) {
  const Byte* scales = b;
  const float d = half_at(b + 80), least = half_at(b + 82);
  for (int r = 0; r < 16; ++r) {
    const TwoBitRun run(b + 16, r);
    const float scale = d * static_cast<float>(scales[r] & 15);
    const float minimum = least * static_cast<float>(scales[r] >> 4);
    for (int l = 0; l < 16; ++l) *to++ = scale * static_cast<float>(run.code(l)) - minimum;
  }
}

// The 6-bit scale of run r: 4 low bits in bytes 0 ... 7, 2 high bits in bytes 8 ... 11; biased
// by 32.
int q3_k_scale(const Byte* packed, int r) {
  const int low = r < 8 ? packed[r] & 15 : packed[r - 8] >> 4;
  const int high = packed[8 + r % 4] >> (2 * (r / 4)) & 3;
  return (low | high << 4) - 32;
}

void q3_k(const Byte* b, float* to) {
  const Byte* high = b;  // bit r / 2 of byte l: whether 4 is not subtracted
  const float d = half_at(b + 108);
  for (int r = 0; r < 16; ++r) {
    const TwoBitRun run(b + 32, r);
    const float scale = d * static_cast<float>(q3_k_scale(b + 96, r));
    for (int l = 0; l < 16; ++l) {
      const bool set = high[r % 2 * 16 + l] >> (r / 2) & 1;
      *to++ = scale * static_cast<float>(run.code(l) - (set ? 0 : 4));
    }
  }
}

// The 6-bit scale and minimum of sub-block j (0 ... 7) of Q4_K and Q5_K, packed in 12 bytes.
struct ScaleMinimum {
  int scale, minimum;
  ScaleMinimum(const Byte* packed, int j)
      : scale(j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4),
        minimum(j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | packed[j] >> 6 << 4) {}
};

void q4_k(const Byte* b, float* to) {
  const float d = half_at(b), least = half_at(b + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMinimum packed(b + 4, j);
    const float scale = d * static_cast<float>(packed.scale);
    const float minimum = least * static_cast<float>(packed.minimum);
    const Byte* codes = b + 16 + j / 2 * 32;
    const int shift = j % 2 * 4;
    for (int l = 0; l < 32; ++l)
      *to++ = scale * static_cast<float>(codes[l] >> shift & 15) - minimum;
  }
}

void q5_k(const Byte* b, float* to) {
  const float d = half_at(b), least = half_at(b + 2);
  const Byte* high = b + 16;  // bit j of byte l: bit 4 of element l of sub-block j
  for (int j = 0; j < 8; ++j) {
    const ScaleMinimum packed(b + 4, j);
    const float scale = d * static_cast<float>(packed.scale);
    const float minimum = least * static_cast<float>(packed.minimum);
    const Byte* codes = b + 48 + j / 2 * 32;
    const int shift = j % 2 * 4;
    for (int l = 0; l < 32; ++l) {
      const int code = (codes[l] >> shift & 15) | (high[l] >> j & 1) << 4;
      *to++ = scale * static_cast<float>(code) - minimum;
    }
  }
}

void q6_k(const Byte* b, float* to) {
  const float d = half_at(b + 208);
  for (int part = 0; part < 8; ++part) {  // 32 elements each, four to a half
    const int half = part / 4, r = part % 4;
    const Byte* low = b + 64 * half + 32 * (r & 1);
    const Byte* high = b + 128 + 32 * half;
    const Byte* scales = b + 192 + 8 * half + 2 * r;
    for (int l = 0; l < 32; ++l) {
      const int nibble = r < 2 ? low[l] & 15 : low[l] >> 4;
      const int code = (nibble | (high[l] >> (2 * r) & 3) << 4) - 32;
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[l / 16]));
      *to++ = scale * static_cast<float>(code);
    }
  }
}

void iq4_xs(const Byte* b, float* to) {
  const float d = half_at(b);
  const auto high = load<std::uint16_t>(b + 2);
  const Byte* low = b + 4;
  for (int j = 0; j < 8; ++j) {
    const int scale_code = (low[j / 2] >> (4 * (j % 2)) & 15) | (high >> (2 * j) & 3) << 4;
    const float scale = d * static_cast<float>(scale_code - 32);
    const Byte* codes = b + 8 + 16 * j;
    for (int l = 0; l < 16; ++l) *to++ = scale * kNonLinear[codes[l] & 15];
    for (int l = 0; l < 16; ++l) *to++ = scale * kNonLinear[codes[l] >> 4];
  }
}

template <void (*Block)(const Byte*, float*)>
void expand(const DTypeInfo& type, const Byte* from, std::int64_t blocks, float* to) {
  for (std::int64_t i = 0; i < blocks; ++i) Block(from + i * type.block_bytes, to + i * type.block);
}

}  // namespace

void dequantise(DType type, const std::byte* from, std::int64_t elements, float* to) {
  const DTypeInfo& entry = info(type);
  const std::int64_t blocks = elements / entry.block;
  const Byte* bytes = reinterpret_cast<const Byte*>(from);
  switch (type) {
    case DType::f32:
      return expand<f32>(entry, bytes, blocks, to);
    case DType::f16:
      return expand<f16>(entry, bytes, blocks, to);
    case DType::bf16:
      return expand<bf16>(entry, bytes, blocks, to);
    case DType::q8_0:
      return expand<q8_0>(entry, bytes, blocks, to);
    case DType::q4_0:
      return expand<q4_0>(entry, bytes, blocks, to);
    case DType::q4_1:
      return expand<q4_1>(entry, bytes, blocks, to);
    case DType::q5_0:
      return expand<q5_0>(entry, bytes, blocks, to);
    case DType::q5_1:
      return expand<q5_1>(entry, bytes, blocks, to);
    case DType::q2_k:
      return expand<q2_k>(entry, bytes, blocks, to);
    case DType::q3_k:
      return expand<q3_k>(entry, bytes, blocks, to);
    case DType::q4_k:
      return expand<q4_k>(entry, bytes, blocks, to);
    case DType::q5_k:
      return expand<q5_k>(entry, bytes, blocks, to);
    case DType::q6_k:
      return expand<q6_k>(entry, bytes, blocks, to);
    case DType::iq4_nl:
      return expand<iq4_nl>(entry, bytes, blocks, to);
    case DType::iq4_xs:
      return expand<iq4_xs>(entry, bytes, blocks, to);
    case DType::mxfp4:
      return expand<mxfp4>(entry, bytes, blocks, to);
    case DType::u8:
      return expand<u8>(entry, bytes, blocks, to);
  }
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) {  // infinity, or NaN, made quiet as the hardware's conversion does
    const std::uint32_t quiet = fraction != 0 ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13 | quiet);
  }
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, the top of its payload kept
    return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal. Adding 0.5 puts the unit 2^-24 last,
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;  // rounding to nearest even
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = magnitude >> 13 & 1;
  const std::uint32_t rounded = (magnitude + 0xfffu + odd) >> 13;
  return static_cast<std::uint16_t>(sign | (rounded - (112u << 10)));
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}  // namespace quire
