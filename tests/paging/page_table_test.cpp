#include "paging/page_table.h"

#include "catch.h"

namespace quire {
namespace {

PageTable table_of(PageAllocator& a, int pages) {
  PageTable table;
  for (int i = 0; i < pages; ++i) table.append(a.allocate());
  return table;
}

}  // namespace

TEST_CASE("truncate gives back the last pages, the last one first") {
  PageAllocator a(4);
  PageTable table = table_of(a, 4);
  for (PageId page : table.entries()) a.set_cached(page);
  CHECK(table.truncate(1, a));
  CHECK(table.size() == 1);
  CHECK(a.idle_count() == 3);
  CHECK(a.first_idle() == 3);
  CHECK(a.next_idle(3) == 2);
  CHECK(table.truncate(0, a));
  CHECK(a.in_use_count() == 0);
}

TEST_CASE("entries behind the window read kNoPage and are released once") {
  PageAllocator a(4);
  PageTable table = table_of(a, 4);
  CHECK(table.release_before(2, a));
  CHECK(table.entries() == std::vector<PageId>{kNoPage, kNoPage, 2, 3});
  CHECK(table.first_held() == 2);
  CHECK(a.free_count() == 2);
  CHECK(table.release_before(1, a));   // nothing more
  CHECK(table.release_before(99, a));  // no further than the table
  CHECK(table.first_held() == 4);
  CHECK(a.free_count() == 4);
  CHECK(table.truncate(0, a));
  CHECK(a.free_count() == 4);
  CHECK(table.first_held() == 0);
}

TEST_CASE("a shared table holds a second reference to each page it still has") {
  PageAllocator a(3);
  PageTable table = table_of(a, 3);
  CHECK(table.release_before(1, a));
  PageTable copy;
  CHECK(table.share(a, &copy));
  CHECK(copy.entries() == table.entries());
  CHECK(a.references(1) == 2);
  CHECK(a.references(0) == 0);

  const PageId fresh = a.allocate();
  CHECK(copy.replace(2, fresh) == 2);  // the caller has the old reference now
  CHECK(a.release(2));
  CHECK(a.references(2) == 1);
  CHECK(table.truncate(0, a));
  CHECK(copy.truncate(0, a));
  CHECK(a.free_count() == 3);
  CHECK(a.check().ok());
}

TEST_CASE("a table may begin behind the window") {
  PageAllocator a(1);
  PageTable table;
  table.append(kNoPage);
  table.append(kNoPage);
  table.append(a.allocate());
  CHECK(table.first_held() == 2);
  CHECK(table.truncate(0, a));
  CHECK(a.free_count() == 1);
}

}  // namespace quire
