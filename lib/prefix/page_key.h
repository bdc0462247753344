#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace quire {

// Digests are uniform already: any eight bytes make a good table index.
struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t value;
    std::memcpy(&value, digest.data(), sizeof value);
    return value;
  }
};

// What separates pages that must never be exchanged, as one unambiguous string: the model's
// namespace, the RoPE choice, the tenant.
std::string cache_name(std::string_view cache_namespace, int rope_choice, std::string_view tenant);

// Keys of the whole pages of a token sequence: SHA-256 over the previous key and the page's tokens,
// starting from the digest of a cache name. Grows with the sequence; nothing is hashed twice.
class PageKeys {
 public:
  PageKeys() = default;
  explicit PageKeys(std::string_view name);

  // Hashes the whole pages of `tokens` that have no key yet. Earlier tokens must be unchanged.
  void extend(std::span<const std::int32_t> tokens, int page_size);

  std::span<const Digest> keys() const { return keys_; }
  const Digest& operator[](int page) const { return keys_[static_cast<std::size_t>(page)]; }
  int size() const { return static_cast<int>(keys_.size()); }

 private:
  Digest root_{};
  std::vector<Digest> keys_;
};

// Key of one page below `parent`.
Digest page_key(const Digest& parent, std::span<const std::int32_t> tokens);
Digest root_key(std::string_view name);

}  // namespace quire
