#include "text/text_index.h"

#include <random>
#include <string>
#include <unordered_map>

#include "catch.h"
#include "text/token_table.h"

namespace quire::text {

TEST_CASE("an index numbers distinct texts as they come") {
  TextIndex index;
  CHECK(index.find("") == TextIndex::absent);
  CHECK(index.insert("b").added);
  CHECK(index.insert("").number == 1);
  CHECK(index.insert(std::string("a\0", 2)).number == 2);
  CHECK_FALSE(index.insert("b").added);
  CHECK(index.insert("b").number == 0);
  CHECK(index.find("a") == TextIndex::absent);
  CHECK(index[0] == "b");
  CHECK(index[1].empty());
  CHECK(index[2] == std::string("a\0", 2));
}

TEST_CASE("an index finds what a map finds, whatever room it began with") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  TextIndex index(random() % 300, random() % 300);
  std::unordered_map<std::string, std::int32_t> numbers;
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t n = random() % 6; n > 0; --n) text += "abc"[random() % 3];
    const auto known = numbers.find(text);
    REQUIRE(index.find(text) == (known == numbers.end() ? TextIndex::absent : known->second));
    const auto [number, added] = index.insert(text);
    REQUIRE(added == numbers.emplace(text, number).second);
    REQUIRE(number == numbers.at(text));
  }
  REQUIRE(index.size() == numbers.size());
  for (const auto& [text, number] : numbers) REQUIRE(index[number] == text);
}

TEST_CASE("a table of tokens keeps repeated, replaced and missing texts apart") {
  TokenTable tokens;
  tokens.add("same", TokenKind::normal);
  tokens.add("same", TokenKind::control);
  tokens.resize(4);
  CHECK(tokens.size() == 4);
  CHECK(tokens[1].text == "same");
  CHECK(tokens[1].kind == TokenKind::control);
  CHECK(tokens[3].text.empty());
  CHECK(tokens[3].kind == TokenKind::unused);
  tokens.set(0, "longer than before", TokenKind::byte);
  tokens.set(3, tokens[1].text, TokenKind::normal);
  tokens.set_kind(1, TokenKind::unknown);
  CHECK(tokens[0].text == "longer than before");
  CHECK(tokens[0].kind == TokenKind::byte);
  CHECK(tokens[1].text == "same");
  CHECK(tokens[1].kind == TokenKind::unknown);
  CHECK(tokens[3].text == "same");
}

}  // namespace quire::text
