#include <cpuid.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "cpu/isa.h"

namespace quire::cpu {
namespace {

// Registers of one leaf of CPUID; zero where the processor has no such leaf.
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(unsigned number, unsigned part) {
  Leaf result;
  if (!__get_cpuid_count(number, part, &result.a, &result.b, &result.c, &result.d)) return {};
  return result;
}

bool bit(unsigned word, int index) {
  return (word >> index & 1) != 0;
}

// Whether the leaf of features 7.1 exists: leaf 7.0 says up to which part.
Leaf features_7_1() {
  return leaf(7, 0).a >= 1 ? leaf(7, 1) : Leaf();
}

// The builtins read CPUID and, for the registers that the system must save, XGETBV; they do not
// know every name with every compiler.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && bit(leaf(1, 0).c, 29);
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

bool has_avx512_bf16() {
  return has_avx512() && bit(features_7_1().a, 5);
}

// Linux gives a process the tile registers only when it asks for them.
bool may_use_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool has_amx() {
  const unsigned features = leaf(7, 0).d;
  const bool bfloat16 = bit(features, 22), tiles = bit(features, 24), int8 = bit(features, 25);
  return has_avx512_bf16() && bfloat16 && tiles && int8 && may_use_tiles();
}

}  // namespace

bool supports(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return has_avx2();
    case Isa::avx_vnni:
      return has_avx2() && bit(features_7_1().a, 4);
    case Isa::avx512:
      return has_avx512();
    case Isa::avx512_bf16:
      return has_avx512_bf16();
    case Isa::amx_int8:
    case Isa::amx:
      return has_amx();
    case Isa::neon:
    case Isa::dotprod:
    case Isa::i8mm:
      return false;
  }
  return false;
}

}  // namespace quire::cpu
