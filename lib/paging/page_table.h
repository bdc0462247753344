#pragma once

#include <vector>

#include "device/kv_cache.h"
#include "paging/page_allocator.h"

namespace quire {

// The pages of one sequence in one KV group, in the order of their tokens. Holds one reference to
// each page; entries in front of `first_held` were given back and read kNoPage. Every function that
// changes references takes the group's allocator and returns false if that one refused.
class PageTable {
 public:
  int size() const { return static_cast<int>(pages_.size()); }
  bool empty() const { return pages_.empty(); }
  PageId operator[](int index) const { return pages_[static_cast<std::size_t>(index)]; }
  const std::vector<PageId>& entries() const { return pages_; }
  int first_held() const { return first_held_; }

  void reserve(int pages) { pages_.reserve(static_cast<std::size_t>(pages)); }
  // Takes over the caller's reference. kNoPage only where nothing is held yet.
  void append(PageId page);
  // Puts another page (with its reference) in place; the caller gets the old one's reference.
  PageId replace(int index, PageId page);

  bool release_before(int index, PageAllocator& allocator) {
    return index <= first_held_ || release_entries_before(index, allocator);
  }
  // Keeps the first `pages` entries; the last page is released first.
  bool truncate(int pages, PageAllocator& allocator);
  // Without giving anything back: the allocator has been reset.
  void forget() noexcept {
    pages_.clear();
    first_held_ = 0;
  }
  // The same pages again, each with one more reference.
  bool share(PageAllocator& allocator, PageTable* copy) const;

 private:
  bool release_entries_before(int index, PageAllocator& allocator);

  std::vector<PageId> pages_;
  int first_held_ = 0;
};

}  // namespace quire
