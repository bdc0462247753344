#pragma once

#include <span>

#include <quire/engine_options.h>

#include "attention/hopper/forward_kernels.h"

namespace benchmarks {

// Kernels with policies that are not the library's, to measure what each idea brings.
struct Variant {
  const char* name;
  int head_size;
  quire::cuda::hopper::ForwardKernel (*kernel)();
  quire::KvType type = quire::KvType::bf16;
};
std::span<const Variant> hopper_variants();

}  // namespace benchmarks
