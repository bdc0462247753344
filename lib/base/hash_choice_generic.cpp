#include "base/hash_blocks.h"

namespace quire {

Sha256Blocks choose_sha256_blocks() {
  return sha256_blocks_plain;
}

}  // namespace quire
