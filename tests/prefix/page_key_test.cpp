#include "prefix/page_key.h"

#include <set>

#include "catch.h"

namespace quire {

TEST_CASE("names differ in every part and cannot be moved between parts") {
  const std::set<std::string> names = {cache_name("m", 0, "t"),  cache_name("m", 1, "t"),
                                       cache_name("m", 0, "u"),  cache_name("n", 0, "t"),
                                       cache_name("m:0", 0, ""), cache_name("m", 0, "0:"),
                                       cache_name("", 0, "m"),   cache_name("m", 0, "")};
  CHECK(names.size() == 8);
}

TEST_CASE("keys grown token by token are those of the whole text") {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 50; ++i) tokens.push_back(i * 7919);
  PageKeys whole("name"), grown("name");
  whole.extend(tokens, 4);
  for (std::size_t n = 0; n <= tokens.size(); ++n) grown.extend(std::span(tokens).first(n), 4);
  REQUIRE(whole.size() == 12);
  REQUIRE(grown.size() == 12);
  for (int i = 0; i < 12; ++i) CHECK(whole[i] == grown[i]);
}

TEST_CASE("a key is SHA-256 over the parent's key and the tokens") {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4};
  PageKeys keys("name");
  keys.extend(tokens, 2);
  const Digest root = Sha256().update(std::as_bytes(std::span("name", 4))).finish();
  const Digest first = Sha256().update_value(root).update_value(1).update_value(2).finish();
  CHECK(keys[0] == first);
  CHECK(keys[1] == Sha256().update_value(first).update_value(3).update_value(4).finish());
}

TEST_CASE("the same tokens under another name or parent have another key") {
  const std::vector<std::int32_t> tokens = {5, 5, 5, 5};
  PageKeys a("a"), b("b");
  a.extend(tokens, 2);
  b.extend(tokens, 2);
  CHECK(a[0] != b[0]);
  CHECK(a[0] != a[1]);
}

}  // namespace quire
