#pragma once

#include <cstddef>

namespace quire {

// The most pages that `tokens` consecutive tokens lie in, wherever the first one stands in its
// page.
constexpr std::size_t most_pages(std::size_t tokens, std::size_t page_size) {
  return tokens == 0 ? 0 : (tokens + page_size - 2) / page_size + 1;
}

}  // namespace quire
