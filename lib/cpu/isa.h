#pragma once

#include <optional>
#include <string_view>

#include "cpu/matmul.h"

namespace quire::cpu {

// Whether this processor and system can run the kernels of that instruction set.
bool supports(Isa isa);
// The best one that they can run.
Isa best_isa();

// "scalar", "avx2", "avx512", "avx512bf16", as in the device name "cpu:avx2".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

}  // namespace quire::cpu
