#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor_view.h"

// The oracles of the fuzzers: a broken promise ends the program, which the fuzzer reports.
namespace quire::fuzz {

inline void check(bool promise) {
  if (!promise) std::abort();
}

inline void check_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  if (part.empty()) return;
  check(part.data() >= whole.data() && part.data() <= whole.data() + whole.size());
  check(part.size() <= static_cast<std::size_t>(whole.data() + whole.size() - part.data()));
}

inline void check_view(const TensorView& view, std::span<const std::byte> file) {
  check_inside(view.bytes, file);
  check(view.dimensions >= 0 && view.dimensions <= 4 && view.elements() > 0);
  check(view.bytes.size() == static_cast<std::size_t>(view.rows()) * view.row_size());
}

}  // namespace quire::fuzz
