#include "paging/page_table.h"

#include <algorithm>
#include <utility>

namespace quire {

void PageTable::append(PageId page) {
  if (page == kNoPage && first_held_ == size()) ++first_held_;
  pages_.push_back(page);
}

PageId PageTable::replace(int index, PageId page) {
  return std::exchange(pages_[static_cast<std::size_t>(index)], page);
}

bool PageTable::release_entries_before(int index, PageAllocator& allocator) {
  bool ok = true;
  for (const int end = std::min(index, size()); first_held_ < end; ++first_held_) {
    ok &= allocator.release(replace(first_held_, kNoPage));
  }
  return ok;
}

bool PageTable::truncate(int pages, PageAllocator& allocator) {
  bool ok = true;
  for (; size() > pages; pages_.pop_back()) {
    if (size() > first_held_) ok &= allocator.release(pages_.back());
  }
  first_held_ = std::min(first_held_, size());
  return ok;
}

bool PageTable::share(PageAllocator& allocator, PageTable* copy) const {
  bool ok = true;
  for (int i = first_held_; i < size(); ++i) ok &= allocator.retain((*this)[i]);
  *copy = *this;
  return ok;
}

}  // namespace quire
