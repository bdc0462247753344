#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// Element types of stored weights; the quantised ones store blocks (ggml's formats).
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  u8,  // codes of a safetensors file (never in GGUF)
};

struct DTypeInfo {
  DType type;
  std::string_view name;  // as GGUF tools write it: "Q4_K"
  int gguf_id;            // the type number in a GGUF file; -1 if none
  int block;              // elements in a block; 1 for plain types
  int block_bytes;        // bytes of a block
};

const DTypeInfo& info(DType type);
// The type of that GGUF number, or nothing.
std::optional<DType> dtype_from_gguf(std::uint32_t id);
inline bool is_quantised(DType type) {
  return info(type).block > 1;
}
// Bytes of a row of `elements`; nothing if that is negative, overflows or is no whole number of
// blocks.
std::optional<std::size_t> row_bytes(DType type, std::int64_t elements);

}  // namespace quire
