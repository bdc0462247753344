#pragma once

#include <cstdint>
#include <vector>

#include <quire/status.h>

#include "device/kv_cache.h"

namespace quire {

// Hands out the pages of one KV group. A page is in exactly one of three states:
//   free     nobody holds it
//   in use   sequences hold `references` > 0 to it (the prefix cache may know it as well)
//   idle     only the prefix cache knows it; kept in the order in which it became idle
// All operations are O(1). Misuse (a page that does not exist, a release without a reference)
// changes nothing and returns false, so that a page can never be queued twice.
class PageAllocator {
 public:
  explicit PageAllocator(int page_count);

  // Every page is free again, whoever held it. Needs no memory.
  void reset() noexcept;

  // A free page with one reference, or kNoPage. Idle pages are not touched.
  PageId allocate();
  bool retain(PageId page);   // one more reference to a page in use or idle
  bool release(PageId page);  // one less; at none the page becomes idle if cached, else free

  bool set_cached(PageId page);    // the prefix cache knows a page in use
  bool clear_cached(PageId page);  // it forgets the page: an idle one becomes free

  int references(PageId page) const { return valid(page) ? pages_[index(page)].references : 0; }
  bool cached(PageId page) const { return valid(page) && pages_[index(page)].cached; }

  int page_count() const { return static_cast<int>(pages_.size()); }
  int free_count() const { return static_cast<int>(free_.size()); }
  int idle_count() const { return idle_count_; }
  int in_use_count() const { return page_count() - free_count() - idle_count(); }

  // Idle pages, the one that became idle first in front; kNoPage at the end.
  PageId first_idle() const { return first_idle_; }
  PageId next_idle(PageId page) const { return pages_[index(page)].next; }

  // Recounts every state; the first contradiction in words.
  Status check() const;

 private:
  struct Page {
    int references = 0;
    bool cached = false;
    PageId previous = kNoPage;  // neighbours among the idle pages
    PageId next = kNoPage;
  };

  static std::size_t index(PageId page) { return static_cast<std::size_t>(page); }
  bool valid(PageId page) const { return page >= 0 && index(page) < pages_.size(); }
  void append_idle(PageId page);
  void remove_idle(PageId page);

  std::vector<Page> pages_;
  std::vector<PageId> free_;  // taken from the back
  PageId first_idle_ = kNoPage;
  PageId last_idle_ = kNoPage;
  int idle_count_ = 0;
};

}  // namespace quire
