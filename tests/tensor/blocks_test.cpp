#include "tensor/blocks.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "catch.h"

using namespace quire;

namespace {

// One element of a block, by the published layout of its format: slow, and written apart from the
// library's loops. `b` is the block, `e` the element's index in it.
using Element = float (*)(const std::uint8_t* b, int e);

float half(const std::uint8_t* b) {
  const int bits = b[0] | b[1] << 8;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction ? NAN : INFINITY;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>(bits & 0x8000 ? -value : value);
}

int nibble_of_32(const std::uint8_t* codes, int e) {
  return e < 16 ? codes[e] & 15 : codes[e - 16] >> 4;
}
int high_bit_of_32(const std::uint8_t* bits, int e) {
  return bits[e / 8] >> (e % 8) & 1;
}

float q4_0(const std::uint8_t* b, int e) {
  return static_cast<float>(nibble_of_32(b + 2, e) - 8) * half(b);
}
float q4_1(const std::uint8_t* b, int e) {
  return static_cast<float>(nibble_of_32(b + 4, e)) * half(b) + half(b + 2);
}
float q5_0(const std::uint8_t* b, int e) {
  const int q = nibble_of_32(b + 6, e) + 16 * high_bit_of_32(b + 2, e);
  return static_cast<float>(q - 16) * half(b);
}
float q5_1(const std::uint8_t* b, int e) {
  const int q = nibble_of_32(b + 8, e) + 16 * high_bit_of_32(b + 4, e);
  return static_cast<float>(q) * half(b) + half(b + 2);
}
float q8_0(const std::uint8_t* b, int e) {
  const int q = b[2 + e] < 128 ? b[2 + e] : b[2 + e] - 256;
  return static_cast<float>(q) * half(b);
}

const int kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
float iq4_nl(const std::uint8_t* b, int e) {
  return half(b) * static_cast<float>(kTable[nibble_of_32(b + 2, e)]);
}
float iq4_xs(const std::uint8_t* b, int e) {
  const int sub = e / 32;
  const int low = sub % 2 ? b[4 + sub / 2] >> 4 : b[4 + sub / 2] & 15;
  const int scales_high = b[2] | b[3] << 8;
  const int ls = low | (scales_high >> (2 * sub) & 3) << 4;
  return half(b) * static_cast<float>(ls - 32) *
         static_cast<float>(kTable[nibble_of_32(b + 8 + 16 * sub, e % 32)]);
}
// OCP MX: FP4 E2M1 codes, one E8M0 scale.
float mxfp4(const std::uint8_t* b, int e) {
  const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int code = nibble_of_32(b + 1, e);
  const double magnitude = std::ldexp(values[code & 7], b[0] - 127);
  return static_cast<float>(code & 8 ? 0 - magnitude : magnitude);
}

float q2_k(const std::uint8_t* b, int e) {
  const int h = e / 128, j = e % 128 / 32, l = e % 32;
  const int q = b[16 + 32 * h + l] >> (2 * j) & 3;
  const int sc = b[8 * h + 2 * j + l / 16];
  return half(b + 80) * static_cast<float>(sc & 15) * static_cast<float>(q) -
         half(b + 82) * static_cast<float>(sc >> 4);
}
float q3_k(const std::uint8_t* b, int e) {
  const int h = e / 128, j = e % 128 / 32, l = e % 32;
  int q = b[32 + 32 * h + l] >> (2 * j) & 3;
  if ((b[l] >> (4 * h + j) & 1) == 0) q -= 4;
  const int i = 8 * h + 2 * j + l / 16;
  const std::uint8_t* s = b + 96;
  const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
  const int high = s[8 + i % 4] >> (2 * (i / 4)) & 3;
  return half(b + 108) * static_cast<float>((low | high << 4) - 32) * static_cast<float>(q);
}

void scale_and_minimum(const std::uint8_t* s, int j, int& scale, int& minimum) {
  if (j < 4) {
    scale = s[j] & 63;
    minimum = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}
float k_quant_with_minimum(const std::uint8_t* b, int e, int q) {
  int scale, minimum;
  scale_and_minimum(b + 4, e / 32, scale, minimum);
  return half(b) * static_cast<float>(scale) * static_cast<float>(q) -
         half(b + 2) * static_cast<float>(minimum);
}
float q4_k(const std::uint8_t* b, int e) {
  const std::uint8_t byte = b[16 + 32 * (e / 64) + e % 32];
  return k_quant_with_minimum(b, e, e % 64 < 32 ? byte & 15 : byte >> 4);
}
float q5_k(const std::uint8_t* b, int e) {
  const std::uint8_t byte = b[48 + 32 * (e / 64) + e % 32];
  const int high = b[16 + e % 32] >> (e / 32) & 1;
  return k_quant_with_minimum(b, e, (e % 64 < 32 ? byte & 15 : byte >> 4) + 16 * high);
}
float q6_k(const std::uint8_t* b, int e) {
  const int h = e / 128, r = e % 128 / 32, l = e % 32;
  const std::uint8_t byte = b[64 * h + l + 32 * (r & 1)];
  const int low = r < 2 ? byte & 15 : byte >> 4;
  const int q = low | (b[128 + 32 * h + l] >> (2 * r) & 3) << 4;
  const int sc = static_cast<std::int8_t>(b[192 + 8 * h + 2 * r + l / 16]);
  return half(b + 208) * static_cast<float>(sc) * static_cast<float>(q - 32);
}

float f32(const std::uint8_t* b, int) {
  float value;
  std::memcpy(&value, b, 4);
  return value;
}
float f16(const std::uint8_t* b, int) {
  return half(b);
}
float bf16(const std::uint8_t* b, int) {
  const std::uint8_t wide[4] = {0, 0, b[0], b[1]};
  return f32(wide, 0);
}
float u8(const std::uint8_t* b, int) {
  return b[0];
}

struct Format {
  DType type;
  Element element;
};
const Format kFormats[] = {
    {DType::f32, f32},     {DType::f16, f16},   {DType::bf16, bf16},     {DType::u8, u8},
    {DType::q8_0, q8_0},   {DType::q4_0, q4_0}, {DType::q4_1, q4_1},     {DType::q5_0, q5_0},
    {DType::q5_1, q5_1},   {DType::q2_k, q2_k}, {DType::q3_k, q3_k},     {DType::q4_k, q4_k},
    {DType::q5_k, q5_k},   {DType::q6_k, q6_k}, {DType::iq4_nl, iq4_nl}, {DType::iq4_xs, iq4_xs},
    {DType::mxfp4, mxfp4},
};

bool same_bits(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

TEST_CASE(
    "dequantisers follow the published layouts bit for bit, on random blocks at odd addresses") {
  constexpr int kBlocks = 300;
  const std::uint32_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const Format& format : kFormats) {
    const DTypeInfo& type = info(format.type);
    INFO(std::string(type.name));
    std::vector<std::uint8_t> bytes(1 + static_cast<std::size_t>(kBlocks * type.block_bytes));
    for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random());
    // E8M0 255 is NaN by the OCP text, 2^128 in ggml; the published tensors have neither.
    if (format.type == DType::mxfp4) {
      for (int i = 0; i < kBlocks; ++i) bytes[1 + static_cast<std::size_t>(17 * i)] %= 250;
    }
    std::vector<float> values(static_cast<std::size_t>(kBlocks * type.block));
    dequantise(format.type, reinterpret_cast<const std::byte*>(bytes.data() + 1),
               static_cast<std::int64_t>(values.size()), values.data());
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint8_t* block = bytes.data() + 1 + i * type.block_bytes;
      for (int e = 0; e < type.block; ++e) {
        const float expected = format.element(block, e);
        const float got = values[static_cast<std::size_t>(i * type.block + e)];
        if (!same_bits(got, expected)) {
          CAPTURE(i, e);
          REQUIRE(got == expected);
        }
      }
    }
  }
}

TEST_CASE("every half converts to its float, and back to itself") {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const std::uint8_t bytes[2] = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)};
    const float value = half_to_float(bits);
    if (!same_bits(value, half(bytes))) {
      CAPTURE(i);
      REQUIRE(value == half(bytes));
    }
    if (std::isnan(value)) {
      if (float_to_half(value) != (bits | 0x200)) FAIL("NaN " << i);  // quiet, payload kept
    } else if (float_to_half(value) != bits) {
      FAIL("half " << i);
    }
  }
}

TEST_CASE("floats round to the nearest half, to the even one between two") {
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const float middle = (half_to_float(low) + half_to_float(high)) / 2;  // exact
    const std::uint16_t even = low % 2 == 0 ? low : high;
    const bool right = float_to_half(middle) == even &&
                       float_to_half(std::nextafter(middle, 0.0f)) == low &&
                       float_to_half(std::nextafter(middle, 1e9f)) == high &&
                       float_to_half(-middle) == (even | 0x8000);
    if (!right) FAIL("above half " << low);
  }
  CHECK(float_to_half(65519.996f) == 0x7bff);
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(1e38f) == 0x7c00);
  CHECK(float_to_half(-INFINITY) == 0xfc00);
  CHECK(float_to_half(1e-45f) == 0);
  CHECK(float_to_half(-0.0f) == 0x8000);
  CHECK(float_to_half(std::bit_cast<float>(0x7f800001u)) ==
        0x7e00);  // a NaN whose payload is cut off
}

TEST_CASE("every bfloat16 converts to its float and back; rounding is to nearest even") {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = bfloat16_to_float(bits);
    if (std::bit_cast<std::uint32_t>(value) != static_cast<std::uint32_t>(i) << 16)
      FAIL("bfloat16 " << i);
    if (std::isnan(value)) {
      if (!std::isnan(bfloat16_to_float(float_to_bfloat16(value)))) FAIL("NaN " << i);
    } else if (float_to_bfloat16(value) != bits) {
      FAIL("bfloat16 " << i);
    }
    if (std::isfinite(value)) {
      const std::uint32_t wide = static_cast<std::uint32_t>(i) << 16;
      const auto up = static_cast<std::uint16_t>(i + 1);
      const bool right =
          float_to_bfloat16(std::bit_cast<float>(wide | 0x7fffu)) == bits &&
          float_to_bfloat16(std::bit_cast<float>(wide | 0x8000u)) == (i % 2 == 0 ? bits : up) &&
          float_to_bfloat16(std::bit_cast<float>(wide | 0x8001u)) == up;
      if (!right) FAIL("above bfloat16 " << i);
    }
  }
  CHECK(float_to_bfloat16(3.4e38f) == 0x7f80);
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0xffffffffu)))));
}
