#pragma once

#include <cstddef>
#include <vector>

namespace quire {

// What the pages of an engine are for.
struct PageDemand {
  struct Group {
    int window = 0;  // 0: all tokens
    std::size_t page_bytes = 0;
  };
  std::vector<Group> groups;
  int max_running = 0;
  int max_step_tokens = 0;
  int page_size = 0;
  bool prefix_cache = false;
};

struct PageDivision {
  std::vector<int> page_counts;  // of each group; all 0 if there is not one page for each
  std::size_t bytes = 0;         // at most what was given
  int tokens = 0;                // of all sequences, that fit
};

// Divides `kv_bytes` between the groups. Without windows, or where memory is short, every group
// gets as many pages. A group with a window gets no more than all sequences that run can need at
// once, but for the prefix cache at least half of an equal share; what it leaves, the groups that
// keep all tokens get.
PageDivision divide_pages(const PageDemand& demand, std::size_t kv_bytes);

}  // namespace quire
