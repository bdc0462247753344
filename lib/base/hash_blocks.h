#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

extern const std::uint32_t kSha256Rounds[64];

// The compression function of SHA-256 (FIPS 180-4) over `count` consecutive blocks of 64 bytes.
// `state`: 8 words, updated.
using Sha256Blocks = void (*)(std::uint32_t* state, const std::uint8_t* blocks, std::size_t count);

void sha256_blocks_plain(std::uint32_t* state, const std::uint8_t* blocks, std::size_t count);
// With the SHA extensions of x86: only where the processor has them.
void sha256_blocks_x86(std::uint32_t* state, const std::uint8_t* blocks, std::size_t count);

// The fastest one that this processor can run.
Sha256Blocks choose_sha256_blocks();

}  // namespace quire
