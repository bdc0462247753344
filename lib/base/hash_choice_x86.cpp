#include <cpuid.h>

#include "base/hash_blocks.h"

namespace quire {

Sha256Blocks choose_sha256_blocks() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool sse41 = __get_cpuid(1, &a, &b, &c, &d) && (c >> 19 & 1) != 0;
  const bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) != 0;
  return sse41 && sha ? sha256_blocks_x86 : sha256_blocks_plain;
}

}  // namespace quire
