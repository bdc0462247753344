#pragma once

#include <optional>
#include <string_view>

#include "cpu/matmul.h"

namespace quire::cpu {

// From the worst to the best.
inline constexpr Isa kIsas[] = {Isa::scalar,      Isa::avx2,     Isa::avx_vnni, Isa::avx512,
                                Isa::avx512_bf16, Isa::amx_int8, Isa::amx,      Isa::neon,
                                Isa::dotprod,     Isa::i8mm};

// Whether this processor and system can run the kernels of that instruction set. Asking for AMX
// requests the system's permission to use its registers, for the whole process.
bool supports(Isa isa);
// The best one that they can run.
Isa best_isa();

// "scalar", "avx2", "avxvnni", "avx512", "avx512bf16", "amxint8", "amx", "neon", "dotprod", "i8mm",
// as in the device name "cpu:avx2".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

}  // namespace quire::cpu
