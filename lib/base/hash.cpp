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
  std::byte padding[64 + 8] = {std::byte{0x80}};
  const std::size_t end = (length_ % 64 < 56 ? 56 : 64 + 56) - length_ % 64;
  for (std::size_t i = 0; i < 8; ++i) {
    padding[end + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  }
  update({padding, end + 8});
  Digest digest;
  for (int i = 0; i < 32; ++i)
    digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

}  // namespace quire
