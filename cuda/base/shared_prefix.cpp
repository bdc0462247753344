#include "base/shared_prefix.h"

#include <algorithm>
#include <cstring>

#include "attention/tile_loop.h"

namespace quire::cuda {
namespace {

// Whether two page tables agree in pages [from, to).
bool same_pages(const SequenceRows& a, const SequenceRows& b, int from, int to) {
  return std::memcmp(a.pages + from, b.pages + from,
                     static_cast<std::size_t>(to - from) * sizeof(PageId)) == 0;
}

// Pages that both sequences begin with, all before their rows. `guess`: how many there may be.
int common_pages(const SequenceRows& a, const SequenceRows& b, int page_size, int guess) {
  // Behind a window they are gone.
  if (a.pages[0] != b.pages[0] || a.pages[0] < 0) return 0;
  const int most = std::min(a.first_position, b.first_position) / page_size;
  int pages = 0;
  if (guess <= most && same_pages(a, b, 0, guess)) pages = guess;
  while (pages < most && a.pages[pages] == b.pages[pages]) ++pages;
  return pages;
}

}  // namespace

// Of pages that neighbours share, as a histogram, the largest rectangle.
SharedPrefix PrefixFinder::find(std::span<const SequenceRows> sequences, int page_size) {
  open_.clear();
  SharedPrefix best;
  std::int64_t most = 0;
  int pages = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const bool last = i + 1 == sequences.size();
    pages = last ? 0 : common_pages(sequences[i], sequences[i + 1], page_size, pages);
    std::size_t first = i;
    while (!open_.empty() && open_.back().pages >= pages) {
      const Run run = open_.back();
      open_.pop_back();
      first = run.first;
      const int keys = run.pages * page_size / attention::kKeyBlock * attention::kKeyBlock;
      const std::int64_t saved = static_cast<std::int64_t>(i - run.first) * keys;
      if (saved <= most) continue;
      most = saved;
      best = {static_cast<std::int32_t>(run.first), static_cast<std::int32_t>(i - run.first + 1),
              keys};
    }
    if (pages > 0) open_.push_back({first, pages});
  }
  return best;
}

}  // namespace quire::cuda
