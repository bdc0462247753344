#include "text/split_pattern.h"

#include <ctime>
#include <span>
#include <string>

#include "catch.h"
#include "check_contains.h"
#include "emulated.h"
#include "text/named_pre_tokenizers.h"

namespace quire::text {
namespace {

std::vector<TextRange> all(const SplitPattern& pattern, const std::string& text) {
  std::vector<TextRange> matches;
  const Status status = pattern.find_all(text, matches);
  INFO(status.message());
  REQUIRE(status.ok());
  return matches;
}

}  // namespace

TEST_CASE("a pattern of a file that is quadratic over many matches is stopped", "[pattern]") {
  // Each is one small match after the other; each match, or failed start, looks at all that
  // follows.
  const std::string patterns[] = {
      "a(?=.*b)|a",       // look-ahead to the end, from every byte
      "(?=(a+[bc]))a|a",  // the same with backtracking
      "a+[bc]|a",         // the first alternative scans all and fails
      "(?:a*?b)|a",       // lazily
      "[bc]?a*[bc]|a",    //
      "(?:a|aa)+[bc]|a",  // exponential in one match
      "a*[bc]",           // finds nothing at all
  };
  for (const std::string& pattern : std::span(patterns).first(testing::kEmulated ? 1 : 7)) {
    INFO(pattern);
    auto compiled = SplitPattern::compile_metered(pattern);
    REQUIRE(compiled.ok());
    const std::string text(1 << 19, 'a');
    std::vector<TextRange> matches;
    const std::clock_t start = std::clock();
    const Status status = compiled->find_all(text, matches);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    INFO(seconds << " s of processor time");
    CHECK(seconds < 20);
    CHECK(status.code() == StatusCode::resource_exhausted);
    check_contains(status.message(), "of 524288");
    check_contains(status.message(), pattern);
  }
}

TEST_CASE("counting the steps of the patterns in use changes no match", "[pattern]") {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += "Hello  world, it's 12345 o'clock!\n\n\t\u00e9\u4e2d\u6587 ";
    text += std::string(static_cast<std::size_t>(i), " a\n1!"[i % 5]);
  }
  for (const std::string& pattern : {
           std::string(gpt2_pattern),
           std::string(R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)"
                       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"),
       }) {
    auto plain = SplitPattern::compile(pattern), metered = SplitPattern::compile_metered(pattern);
    REQUIRE(plain.ok());
    REQUIRE(metered.ok());
    const auto expected = all(*plain, text), got = all(*metered, text);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i].begin == expected[i].begin);
      REQUIRE(got[i].end == expected[i].end);
    }
  }
}

TEST_CASE("the patterns of the named pre-tokenizers are known, and no others", "[pattern]") {
  CHECK(is_known_pattern(gpt2_pattern));
  CHECK(is_known_pattern(R"(\p{N}{1,3})"));
  CHECK_FALSE(is_known_pattern("a+[bc]|a"));
  CHECK_FALSE(is_known_pattern(""));
}

}  // namespace quire::text
