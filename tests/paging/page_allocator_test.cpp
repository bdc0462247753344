#include "paging/page_allocator.h"

#include <set>

#include "catch.h"

namespace quire {
namespace {

std::vector<PageId> idle_pages(const PageAllocator& a) {
  std::vector<PageId> pages;
  for (PageId p = a.first_idle(); p != kNoPage; p = a.next_idle(p)) pages.push_back(p);
  return pages;
}

}  // namespace

TEST_CASE("every page is handed out once") {
  PageAllocator a(5);
  std::set<PageId> pages;
  for (int i = 0; i < 5; ++i) pages.insert(a.allocate());
  CHECK(pages == std::set<PageId>{0, 1, 2, 3, 4});
  CHECK(a.allocate() == kNoPage);
  CHECK(a.in_use_count() == 5);
  CHECK(a.check().ok());
}

TEST_CASE("a page released twice is queued once") {
  PageAllocator a(2);
  const PageId page = a.allocate();
  CHECK(a.release(page));
  CHECK_FALSE(a.release(page));
  CHECK(a.free_count() == 2);
  CHECK(a.allocate() != a.allocate());
  CHECK(a.allocate() == kNoPage);
  CHECK(a.check().ok());
}

TEST_CASE("pages that do not exist are refused") {
  PageAllocator a(2);
  for (PageId page : {kNoPage, PageId{2}, PageId{-7}}) {
    CHECK_FALSE(a.retain(page));
    CHECK_FALSE(a.release(page));
    CHECK_FALSE(a.set_cached(page));
    CHECK_FALSE(a.clear_cached(page));
    CHECK_FALSE(a.cached(page));
    CHECK(a.references(page) == 0);
  }
  CHECK_FALSE(a.retain(0));      // free
  CHECK_FALSE(a.set_cached(0));  // free
  CHECK(PageAllocator(0).allocate() == kNoPage);
  CHECK(PageAllocator(-3).page_count() == 0);
}

TEST_CASE("a page with two references is free after two releases") {
  PageAllocator a(1);
  const PageId page = a.allocate();
  CHECK(a.retain(page));
  CHECK(a.references(page) == 2);
  CHECK(a.release(page));
  CHECK(a.free_count() == 0);
  CHECK(a.release(page));
  CHECK(a.free_count() == 1);
}

TEST_CASE("cached pages become idle in the order of their release") {
  PageAllocator a(4);
  for (int i = 0; i < 4; ++i) CHECK(a.set_cached(a.allocate()));
  CHECK_FALSE(a.set_cached(0));  // already
  for (PageId page : {2, 0, 3, 1}) CHECK(a.release(page));
  CHECK(idle_pages(a) == std::vector<PageId>{2, 0, 3, 1});
  CHECK(a.idle_count() == 4);
  CHECK(a.free_count() == 0);

  CHECK(a.retain(0));  // used again: the newest when it is released
  CHECK(idle_pages(a) == std::vector<PageId>{2, 3, 1});
  CHECK(a.release(0));
  CHECK(idle_pages(a) == std::vector<PageId>{2, 3, 1, 0});
  CHECK(a.clear_cached(3));
  CHECK_FALSE(a.clear_cached(3));
  CHECK(idle_pages(a) == std::vector<PageId>{2, 1, 0});
  CHECK(a.allocate() == 3);
  CHECK(a.check().ok());
}

TEST_CASE("a page in use that the cache forgets stays in use") {
  PageAllocator a(1);
  CHECK(a.set_cached(a.allocate()));
  CHECK(a.clear_cached(0));
  CHECK(a.in_use_count() == 1);
  CHECK(a.release(0));
  CHECK(a.free_count() == 1);
  CHECK(a.idle_count() == 0);
}

}  // namespace quire
