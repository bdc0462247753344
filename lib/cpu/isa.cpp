#include "cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quire::cpu {

#if defined(__x86_64__)
namespace {

// Clang's builtin does not know this name.
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace
#endif

// The builtins read CPUID and, for the registers that the system must save, XGETBV.
bool supports(Isa isa) {
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (isa == Isa::avx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  return avx512 && (isa == Isa::avx512 || __builtin_cpu_supports("avx512bf16"));
#else
  return false;
#endif
}

Isa best_isa() {
  for (const Isa isa : {Isa::avx512_bf16, Isa::avx512, Isa::avx2}) {
    if (supports(isa)) return isa;
  }
  return Isa::scalar;
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512bf16";
  }
  return "unknown";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa_name(isa) == name) return isa;
  }
  return std::nullopt;
}

}  // namespace quire::cpu
