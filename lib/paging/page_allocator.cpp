#include "paging/page_allocator.h"

#include "base/error.h"

namespace quire {

PageAllocator::PageAllocator(int page_count) {
  const std::size_t count = page_count > 0 ? static_cast<std::size_t>(page_count) : 0;
  pages_.resize(count);
  free_.reserve(count);
  reset();
}

void PageAllocator::reset() noexcept {
  free_.clear();
  for (Page& page : pages_) page = {};
  for (std::size_t i = pages_.size(); i > 0; --i) free_.push_back(static_cast<PageId>(i - 1));
  first_idle_ = last_idle_ = kNoPage;
  idle_count_ = 0;
}

PageId PageAllocator::allocate() {
  if (free_.empty()) return kNoPage;
  const PageId page = free_.back();
  free_.pop_back();
  pages_[index(page)].references = 1;
  return page;
}

bool PageAllocator::retain(PageId page) {
  if (!valid(page)) return false;
  Page& p = pages_[index(page)];
  if (p.references == 0 && !p.cached) return false;
  if (p.references == 0) remove_idle(page);
  ++p.references;
  return true;
}

bool PageAllocator::release(PageId page) {
  if (!valid(page)) return false;
  Page& p = pages_[index(page)];
  if (p.references == 0) return false;
  if (--p.references > 0) return true;
  if (p.cached) {
    append_idle(page);
  } else {
    free_.push_back(page);
  }
  return true;
}

bool PageAllocator::set_cached(PageId page) {
  if (!valid(page)) return false;
  Page& p = pages_[index(page)];
  if (p.references == 0 || p.cached) return false;
  p.cached = true;
  return true;
}

bool PageAllocator::clear_cached(PageId page) {
  if (!cached(page)) return false;
  Page& p = pages_[index(page)];
  p.cached = false;
  if (p.references == 0) {
    remove_idle(page);
    free_.push_back(page);
  }
  return true;
}

void PageAllocator::append_idle(PageId page) {
  Page& p = pages_[index(page)];
  p.previous = last_idle_;
  p.next = kNoPage;
  (last_idle_ == kNoPage ? first_idle_ : pages_[index(last_idle_)].next) = page;
  last_idle_ = page;
  ++idle_count_;
}

void PageAllocator::remove_idle(PageId page) {
  Page& p = pages_[index(page)];
  (p.previous == kNoPage ? first_idle_ : pages_[index(p.previous)].next) = p.next;
  (p.next == kNoPage ? last_idle_ : pages_[index(p.next)].previous) = p.previous;
  p.previous = p.next = kNoPage;
  --idle_count_;
}

Status PageAllocator::check() const {
  std::vector<int> seen(pages_.size(), 0);
  for (PageId page : free_) {
    if (!valid(page))
      return error(StatusCode::internal, "page {} of {} is free", page, page_count());
    const Page& p = pages_[index(page)];
    if (p.references != 0 || p.cached) {
      return error(StatusCode::internal, "free page {} has {} references, cached {}", page,
                   p.references, p.cached);
    }
    ++seen[index(page)];
  }
  int idle = 0;
  for (PageId page = first_idle_; page != kNoPage && idle <= idle_count_; page = next_idle(page)) {
    const Page& p = pages_[index(page)];
    if (p.references != 0 || !p.cached) {
      return error(StatusCode::internal, "idle page {} has {} references, cached {}", page,
                   p.references, p.cached);
    }
    ++seen[index(page)];
    ++idle;
  }
  if (idle != idle_count_) {
    return error(StatusCode::internal, "{} pages are idle, {} counted", idle, idle_count_);
  }
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const int states = seen[i] + (pages_[i].references > 0 ? 1 : 0);
    if (states != 1)
      return error(StatusCode::internal, "page {} is in {} states, not 1", i, states);
  }
  return {};
}

}  // namespace quire
