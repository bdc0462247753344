#include "tensor/dtype.h"

#include "base/checked.h"

namespace quire {
namespace {

constexpr DTypeInfo kTypes[] = {
    {DType::f32, "F32", 0, 1, 4},
    {DType::f16, "F16", 1, 1, 2},
    {DType::bf16, "BF16", 30, 1, 2},
    {DType::q8_0, "Q8_0", 8, 32, 34},
    {DType::q4_0, "Q4_0", 2, 32, 18},
    {DType::q4_1, "Q4_1", 3, 32, 20},
    {DType::q5_0, "Q5_0", 6, 32, 22},
    {DType::q5_1, "Q5_1", 7, 32, 24},
    {DType::q2_k, "Q2_K", 10, 256, 84},
    {DType::q3_k, "Q3_K", 11, 256, 110},
    {DType::q4_k, "Q4_K", 12, 256, 144},
    {DType::q5_k, "Q5_K", 13, 256, 176},
    {DType::q6_k, "Q6_K", 14, 256, 210},
    {DType::iq4_nl, "IQ4_NL", 20, 32, 18},
    {DType::iq4_xs, "IQ4_XS", 23, 256, 136},
    {DType::mxfp4, "MXFP4", 39, 32, 17},
    {DType::u8, "U8", -1, 1, 1},
};

}  // namespace

const DTypeInfo& info(DType type) {
  return kTypes[static_cast<int>(type)];
}

std::optional<DType> dtype_from_gguf(std::uint32_t id) {
  for (const DTypeInfo& entry : kTypes) {
    if (entry.gguf_id >= 0 && static_cast<std::uint32_t>(entry.gguf_id) == id) return entry.type;
  }
  return std::nullopt;
}

std::optional<std::size_t> row_bytes(DType type, std::int64_t elements) {
  const DTypeInfo& entry = info(type);
  if (elements < 0 || elements % entry.block != 0) return std::nullopt;
  return (CheckedSize(static_cast<std::uint64_t>(elements / entry.block)) *
          CheckedSize(static_cast<std::uint64_t>(entry.block_bytes)))
      .get();
}

}  // namespace quire
