#include "engine/page_division.h"

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "paging/most_pages.h"

namespace quire {
namespace {

constexpr std::size_t kMostPages = std::size_t{1} << 24;

// Each running sequence holds the pages of its window and writes into one more; the prompt tokens
// of a pass come on top.
std::size_t running_pages(const PageDemand& demand, int window) {
  const auto page_size = static_cast<std::size_t>(demand.page_size);
  const std::size_t own = most_pages(static_cast<std::size_t>(window), page_size) + 1;
  return static_cast<std::size_t>(demand.max_running) * own +
         most_pages(static_cast<std::size_t>(demand.max_step_tokens), page_size);
}

}  // namespace

PageDivision divide_pages(const PageDemand& demand, std::size_t kv_bytes) {
  std::size_t all_bytes = 0, full_bytes = 0;
  for (const PageDemand::Group& group : demand.groups) {
    all_bytes += group.page_bytes;
    if (group.window == 0) full_bytes += group.page_bytes;
  }
  const std::size_t equal = std::min(kv_bytes / all_bytes, kMostPages);
  const std::size_t kept = demand.prefix_cache ? ceil_div(equal, std::size_t{2}) : 0;
  std::size_t left = kv_bytes;
  const auto window_pages = [&](int window) {
    if (full_bytes == 0) return equal;  // nobody to leave anything to
    return std::min(equal, std::max(kept, running_pages(demand, window)));
  };
  for (const PageDemand::Group& group : demand.groups) {
    if (group.window > 0) left -= window_pages(group.window) * group.page_bytes;
  }
  const std::size_t full =
      full_bytes == 0 || equal == 0 ? equal : std::min(left / full_bytes, kMostPages);

  PageDivision division;
  for (const PageDemand::Group& group : demand.groups) {
    const std::size_t pages = group.window > 0 ? window_pages(group.window) : full;
    division.page_counts.push_back(static_cast<int>(pages));
    division.bytes += pages * group.page_bytes;
  }
  const std::size_t tokens = full * static_cast<std::size_t>(demand.page_size);
  division.tokens = static_cast<int>(std::min<std::size_t>(tokens, INT32_MAX));
  return division;
}

}  // namespace quire
