#include "prefix/prefix_cache.h"

#include "catch.h"

namespace quire {
namespace {

using Tokens = std::vector<std::int32_t>;

// A cache with pages of 4 tokens; texts are published as if a sequence had computed and left them.
struct Fixture {
  explicit Fixture(int pages = 16, std::vector<int> windows = {0})
      : groups(windows.size()),
        allocators(windows.size(), PageAllocator(pages)),
        cache(4, std::move(windows), allocators) {}

  // Publishes the whole pages, then the tail; gives back the pages, the last first.
  std::vector<std::vector<PageId>> leave(const std::string& name, const Tokens& text) {
    PageKeys keys(name);
    keys.extend(text, 4);
    CacheNode tip = cache.pin_root(name);
    std::vector<std::vector<PageId>> all;
    for (std::size_t i = 0; i * 4 < text.size(); ++i) {
      std::vector<PageId> pages;
      for (PageAllocator& a : allocators) {
        PageId page = a.allocate();
        if (page == kNoPage && cache.evict(static_cast<int>(&a - allocators.data()))) {
          page = a.allocate();
        }
        pages.push_back(page);
      }
      const auto part =
          std::span(text).subspan(i * 4, std::min<std::size_t>(4, text.size() - i * 4));
      if (part.size() == 4) {
        const CacheNode node = cache.publish(tip, keys[static_cast<int>(i)], part, pages);
        REQUIRE(node != kNoNode);
        cache.pin(node);
        cache.unpin(tip);
        tip = node;
      } else {
        cache.publish_tail(tip, part, pages);
      }
      all.push_back(pages);
    }
    for (std::size_t i = all.size(); i > 0; --i) {
      for (std::size_t g = 0; g < groups; ++g) REQUIRE(allocators[g].release(all[i - 1][g]));
    }
    cache.unpin(tip);
    check();
    return all;
  }

  PrefixMatch match(const std::string& name, const Tokens& text, int limit) {
    PageKeys keys(name);
    keys.extend(text, 4);
    return cache.match(name, text, keys.keys(), limit);
  }
  int found(const std::string& name, const Tokens& text) {
    return match(name, text, static_cast<int>(text.size())).tokens;
  }

  void check() {
    const Status status = cache.check({});
    INFO(status.message());
    CHECK(status.ok());
    for (const PageAllocator& a : allocators) CHECK(a.check().ok());
  }

  std::size_t groups;
  std::vector<PageAllocator> allocators;
  PrefixCache cache;
};

Tokens count_up(int first, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

Tokens join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("a match ends where the texts part, inside a page if need be") {
  Fixture f;
  const Tokens text = count_up(100, 10);
  f.leave("t", text);
  CHECK(f.found("t", text) == 10);
  for (int same = 0; same <= 10; ++same) {
    Tokens other(text.begin(), text.begin() + same);
    other = join(other, count_up(900, 6));
    CHECK(f.found("t", other) == same);
    const PrefixMatch m = f.match("t", other, 16);
    CHECK(static_cast<int>(m.pages.size()) == same / 4);
    CHECK(m.inside_tokens == same % 4);
    CHECK((m.inside != kNoNode) == (same % 4 != 0));
  }
}

TEST_CASE("a match never passes its limit") {
  Fixture f;
  const Tokens text = count_up(0, 12);
  f.leave("t", text);
  for (int limit = 0; limit <= 12; ++limit) CHECK(f.match("t", text, limit).tokens == limit);
  const PrefixMatch m = f.match("t", text, 11);  // a full hit that computes one token
  CHECK(m.pages.size() == 2);
  CHECK(m.inside_tokens == 3);
}

TEST_CASE("names are isolated") {
  Fixture f;
  const Tokens text = count_up(0, 9);
  f.leave(cache_name("m", 0, "a"), text);
  CHECK(f.found(cache_name("m", 0, "a"), text) == 9);
  CHECK(f.found(cache_name("m", 0, "b"), text) == 0);
  CHECK(f.found(cache_name("m", 1, "a"), text) == 0);
  CHECK(f.found(cache_name("n", 0, "a"), text) == 0);
}

TEST_CASE("keys that collide are a miss, for readers and for writers") {
  Fixture f;
  const Tokens text = count_up(0, 4), other = count_up(50, 4);
  const Digest same{};  // as if SHA-256 had failed
  const CacheNode root = f.cache.pin_root("t");
  const std::vector<PageId> pages = {f.allocators[0].allocate()};
  const CacheNode node = f.cache.publish(root, same, text, pages);
  REQUIRE(node != kNoNode);
  const std::vector<Digest> keys = {same};
  CHECK(f.cache.match("t", text, keys, 4).tokens == 4);
  CHECK(f.cache.match("t", other, keys, 4).tokens == 0);

  const CacheNode stranger = f.cache.pin_root("u");
  const std::vector<PageId> more = {f.allocators[0].allocate()};
  CHECK(f.cache.publish(root, same, other, more) == kNoNode);
  CHECK(f.cache.publish(stranger, same, text, more) == kNoNode);  // another parent
  CHECK_FALSE(f.allocators[0].cached(more[0]));
  CHECK(f.cache.match("u", text, keys, 4).tokens == 0);
}

TEST_CASE("of two pages with the same tokens the first one stays") {
  Fixture f;
  const Tokens text = count_up(0, 8);
  const auto first = f.leave("t", text);
  f.leave("t", text);
  CHECK(f.allocators[0].idle_count() == 2);
  const PrefixMatch m = f.match("t", text, 8);
  CHECK(f.cache.page(m.pages[0], 0) == first[0][0]);
  CHECK(f.cache.page(m.pages[1], 0) == first[1][0]);
}

TEST_CASE("a tail is kept once, and gives way to a page that begins with it") {
  Fixture f;
  f.leave("t", count_up(0, 6));
  CHECK(f.allocators[0].idle_count() == 2);
  f.leave("t", count_up(0, 6));
  f.leave("t", count_up(0, 5));  // covered
  CHECK(f.allocators[0].idle_count() == 2);
  f.leave("t", count_up(0, 7));  // longer
  CHECK(f.allocators[0].idle_count() == 2);
  CHECK(f.found("t", count_up(0, 8)) == 7);
  f.leave("t", count_up(0, 8));  // whole
  CHECK(f.allocators[0].idle_count() == 2);
  CHECK(f.found("t", count_up(0, 8)) == 8);
  f.leave("t", join(count_up(0, 6), {99}));  // parts inside the page
  CHECK(f.allocators[0].idle_count() == 3);
}

TEST_CASE("eviction takes the least recently used text first") {
  Fixture f(6);
  const auto a = f.leave("t", count_up(0, 8));
  f.leave("t", count_up(100, 8));
  for (std::size_t i : {0, 1}) REQUIRE(f.allocators[0].retain(a[i][0]));  // used again
  for (std::size_t i : {1, 0}) REQUIRE(f.allocators[0].release(a[i][0]));
  f.leave("t", count_up(200, 16));  // two pages are free, two must go
  CHECK(f.found("t", count_up(0, 8)) == 8);
  CHECK(f.found("t", count_up(100, 8)) == 0);
  CHECK(f.found("t", count_up(200, 16)) == 16);
}

TEST_CASE("a parent is evicted after its children") {
  Fixture f(8);
  const auto pages = f.leave("t", count_up(0, 12));
  f.leave("t", join(count_up(0, 4), count_up(50, 4)));
  // Least recent: the third, then the second page of the first text; both texts stand on the first.
  REQUIRE(f.cache.evict(0));
  CHECK(f.found("t", count_up(0, 12)) == 8);
  REQUIRE(f.cache.evict(0));
  CHECK(f.found("t", count_up(0, 12)) == 4);
  CHECK(f.found("t", join(count_up(0, 4), count_up(50, 4))) == 8);
  REQUIRE(f.cache.evict(0));
  CHECK(f.found("t", join(count_up(0, 4), count_up(50, 4))) == 4);
  REQUIRE(f.cache.evict(0));
  CHECK(f.cache.node_count() == 0);
  CHECK_FALSE(f.cache.evict(0));
  CHECK(f.allocators[0].free_count() == 8);
}

TEST_CASE("a page in use is not evicted, nor what it stands on") {
  Fixture f(8);
  const auto pages = f.leave("t", count_up(0, 12));
  for (int i = 0; i < 2; ++i)
    REQUIRE(f.allocators[0].retain(pages[static_cast<std::size_t>(i)][0]));
  f.cache.clear();
  CHECK(f.found("t", count_up(0, 12)) == 8);
  CHECK(f.allocators[0].in_use_count() == 2);
  for (int i = 1; i >= 0; --i)
    REQUIRE(f.allocators[0].release(pages[static_cast<std::size_t>(i)][0]));
  f.cache.clear();
  CHECK(f.allocators[0].free_count() == 8);
  f.check();
}

TEST_CASE("a hit needs the window before its end, and only that") {
  Fixture f(16, {0, 5});
  const Tokens text = count_up(0, 16);
  f.leave("t", text);
  CHECK(f.found("t", text) == 16);
  // The window group loses its pages from the last to the first, as they became idle.
  REQUIRE(f.cache.evict(1));
  CHECK(f.found("t", text) == 12);
  REQUIRE(f.cache.evict(1));
  CHECK(f.found("t", text) == 8);
  f.check();
  const PrefixMatch m = f.match("t", text, 16);
  CHECK(m.known_pages == 4);
  CHECK(m.pages.size() == 2);
}

TEST_CASE("a missing front page of a window does not matter behind it") {
  Fixture f(16, {0, 5});
  const Tokens text = count_up(0, 16);
  const auto pages = f.leave("t", text);
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(f.allocators[1].retain(pages[i][1]));
  REQUIRE(f.cache.evict(1));  // the only idle one: the first page
  CHECK(f.found("t", text) == 16);
  CHECK(f.found("t", count_up(0, 8)) == 0);  // [3, 8) begins in the first page
  CHECK(f.match("t", text, 9).tokens == 9);  // [4, 9)
  CHECK(f.match("t", text, 8).tokens == 0);
  for (std::size_t i = 3; i > 0; --i) REQUIRE(f.allocators[1].release(pages[i][1]));
  f.check();
}

TEST_CASE("a page lost from a window is taken from the next that computes it") {
  Fixture f(16, {0, 5});
  const Tokens text = count_up(0, 8);
  f.leave("t", text);
  while (f.cache.evict(1)) {
  }
  CHECK(f.found("t", text) == 0);
  f.leave("t", text);
  CHECK(f.found("t", text) == 8);
}

TEST_CASE("with windows only, nodes without pages go with the last that stands on them") {
  Fixture f(16, {4});
  f.leave("t", count_up(0, 12));
  CHECK(f.cache.node_count() == 4);
  REQUIRE(f.cache.evict(0));  // the last page became idle first
  REQUIRE(f.cache.evict(0));
  CHECK(f.cache.node_count() == 2);
  REQUIRE(f.cache.evict(0));
  CHECK(f.cache.node_count() == 0);
}

}  // namespace quire
