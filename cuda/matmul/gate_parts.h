#pragma once

#include <cstddef>

#include "matmul/product.h"

namespace quire::cuda {

// Calls with a gated epilogue where no kernel does both matrices: gate and up one after the other,
// as many rows at a time as the memory holds, then the gate.

struct GateMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Both as float in `memory`. Error: internal, if it holds no row.
Status gate_apart(const Launch& launch, const ProductCall& call, const GateMemory& memory);

// In bfloat16, half as much to write and to read: gates where the result will lie, what they are
// multiplied with in `memory`. Where can_gate_in_place. Error: internal, if it holds no row.
Status gate_in_place(const Launch& launch, const ProductCall& call, const GateMemory& memory);

}  // namespace quire::cuda
