#pragma once

#include <cstddef>

namespace quire::cpu {

// Asks the system to back the whole huge pages in a range, which nobody has touched yet, by such
// pages. A wish: without them the memory works, a little slower.
void advise_huge_pages(void* data, std::size_t bytes);

}  // namespace quire::cpu
