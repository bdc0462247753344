#include <sys/auxv.h>

#include "cpu/isa.h"

namespace quire::cpu {
namespace {

// Linux tells processes what the processor has; the numbers are those of <asm/hwcap.h>.
constexpr unsigned long kDotProduct = 1ul << 20;      // in AT_HWCAP
constexpr unsigned long kMatrixProducts = 1ul << 13;  // in AT_HWCAP2

bool has_dotprod() {
  return (getauxval(AT_HWCAP) & kDotProduct) != 0;
}

}  // namespace

bool supports(Isa isa) {
  switch (isa) {
    case Isa::scalar:
    case Isa::neon:  // of every processor
      return true;
    case Isa::dotprod:
      return has_dotprod();
    case Isa::i8mm:
      return has_dotprod() && (getauxval(AT_HWCAP2) & kMatrixProducts) != 0;
    case Isa::avx2:
    case Isa::avx_vnni:
    case Isa::avx512:
    case Isa::avx512_bf16:
    case Isa::amx_int8:
    case Isa::amx:
      return false;
  }
  return false;
}

}  // namespace quire::cpu
