#include "cpu/isa.h"

#include <iterator>

namespace quire::cpu {

Isa best_isa() {
  for (auto isa = std::rbegin(kIsas); isa != std::rend(kIsas); ++isa) {
    if (supports(*isa)) return *isa;
  }
  return Isa::scalar;
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx_vnni:
      return "avxvnni";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512bf16";
    case Isa::amx_int8:
      return "amxint8";
    case Isa::amx:
      return "amx";
    case Isa::neon:
      return "neon";
    case Isa::dotprod:
      return "dotprod";
    case Isa::i8mm:
      return "i8mm";
  }
  return "unknown";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (isa_name(isa) == name) return isa;
  }
  return std::nullopt;
}

}  // namespace quire::cpu
