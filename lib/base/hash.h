#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

// A 256-bit digest.
using Digest = std::array<std::uint8_t, 32>;

// SHA-256 (FIPS 180-4), fed in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256& update(std::span<const std::byte> bytes);
  template <class T>
  Sha256& update_value(const T& value) {  // trivially copyable
    return update(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  Digest finish();

 private:
  void compress_buffer();
  std::array<std::uint32_t, 8> state_;
  std::array<std::uint8_t, 64> buffer_{};
  std::uint64_t length_ = 0;  // bytes so far
};

}  // namespace quire
