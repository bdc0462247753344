#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::text {

// Writes messages in protocol buffers' wire format.
class ProtoBuilder {
 public:
  ProtoBuilder& integer(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  ProtoBuilder& bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    out_ += value;
    return *this;
  }
  ProtoBuilder& real(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i) out_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }
  // A sentencepiece.
  ProtoBuilder& piece(std::string_view text, float score, int type) {
    return bytes(1, ProtoBuilder().bytes(1, text).real(2, score).integer(3, type).take());
  }
  const std::string& take() const { return out_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 128; value /= 128) out_ += static_cast<char>(value % 128 + 128);
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

}  // namespace quire::text
