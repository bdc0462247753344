#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::cuda {

// The argument of the kernels that turn records into rows of bfloat16, as the products use them:
// whole panels from `from` on, to [16 panels][64 blocks].
struct ExpandArgs {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t records = 0;
  int blocks = 0;  // of a panel
  std::uint32_t table[4] = {};
};

inline constexpr int kExpandThreads = 128;

}  // namespace quire::cuda
