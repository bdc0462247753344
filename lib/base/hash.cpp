#include "base/hash.h"

#include <algorithm>
#include <cstring>

#include "base/hash_blocks.h"

namespace quire {
Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::compress_buffer() {
  static const Sha256Blocks blocks = choose_sha256_blocks();
  blocks(state_.data(), buffer_.data(), 1);
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t used = length_ % 64;
    const std::size_t n = std::min(bytes.size(), 64 - used);
    std::memcpy(buffer_.data() + used, bytes.data(), n);
    length_ += n;
    bytes = bytes.subspan(n);
    if (length_ % 64 == 0) compress_buffer();
  }
  return *this;
}

Digest Sha256::finish() {
  const std::uint64_t bits = length_ * 8;
  // A bit, zeros up to 8 bytes before the end of a block, and the length.
  auto end = buffer_.begin() + static_cast<std::ptrdiff_t>(length_ % 64);
  *end++ = 0x80;
  if (end > buffer_.end() - 8) {
    std::fill(end, buffer_.end(), std::uint8_t{0});
    compress_buffer();
    end = buffer_.begin();
  }
  std::fill(end, buffer_.end() - 8, std::uint8_t{0});
  for (std::size_t i = 0; i < 8; ++i) {
    buffer_[56 + i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  }
  compress_buffer();
  Digest digest;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      digest[4 * i + k] = static_cast<std::uint8_t>(state_[i] >> (24 - 8 * k));
    }
  }
  return digest;
}

}  // namespace quire
