#include "text/stop_matcher.h"

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "catch.h"

namespace quire::text {
namespace {

struct Ending {
  std::string text;
  std::optional<std::string> stop;
  bool operator==(const Ending&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  return out << '"' << ending.text << "\" stop " << (ending.stop ? *ending.stop : "none");
}

Ending run(const std::vector<std::string>& stops, const std::vector<std::string>& deltas) {
  StopMatcher matcher(stops);
  Ending ending;
  for (const auto& delta : deltas) {
    auto output = matcher.feed(delta);
    ending.text += output.text;
    if (output.stop) ending.stop = output.stop;
  }
  auto output = matcher.finish();
  ending.text += output.text;
  if (output.stop) ending.stop = output.stop;
  return ending;
}

// The earliest start, of equals the shortest, by search.
Ending naive(const std::vector<std::string>& stops, const std::string& text) {
  std::size_t best = std::string::npos;
  const std::string* stop = nullptr;
  for (const auto& candidate : stops) {
    if (candidate.empty()) continue;
    const std::size_t at = text.find(candidate);
    if (at == std::string::npos) continue;
    if (at < best || (at == best && candidate.size() < stop->size())) {
      best = at;
      stop = &candidate;
    }
  }
  if (stop == nullptr) return {text, std::nullopt};
  return {text.substr(0, best), *stop};
}

}  // namespace

TEST_CASE("a stop that spans tokens ends the text before it") {
  CHECK(run({"O P Q"}, {"L M", " N", " O", " P", " Q", " R"}) == Ending{"L M N ", "O P Q"});
}

TEST_CASE("of two stops of different length the earliest match wins") {
  CHECK(run({" world now", "wor"}, {"hello", " wor", "ld"}) == Ending{"hello ", "wor"});
  CHECK(run({" world now", "wor"}, {"hello", " wor", "ld", " now"}) ==
        Ending{"hello", " world now"});
  CHECK(run({"abc", "ab"}, {"xabc"}) == Ending{"x", "ab"});
}

TEST_CASE("a match waits for a longer stop that began before it") {
  StopMatcher matcher({"abcd", "bc"});
  auto output = matcher.feed("xabc");
  CHECK(output.text == "x");
  CHECK_FALSE(output.stop);
  output = matcher.feed("e");
  CHECK(output.text == "a");
  CHECK(output.stop == "bc");
  CHECK(run({"abcd", "bc"}, {"xabc"}) == Ending{"xa", "bc"});  // decided by the end
}

TEST_CASE("text that could become a stop is held back and no more") {
  StopMatcher matcher({"</s>", "\n\n"});
  CHECK(matcher.feed("one <").text == "one ");
  CHECK(matcher.feed("b> two\n").text == "<b> two");
  CHECK(matcher.feed("three").text == "\nthree");
  CHECK(matcher.finish().text == "");
}

TEST_CASE("without stops every delta passes at once") {
  StopMatcher matcher({});
  CHECK(matcher.feed("abc").text == "abc");
  CHECK(matcher.finish().text == "");
  CHECK(run({""}, {"abc"}) == Ending{"abc", std::nullopt});
}

TEST_CASE("stops and text may hold NUL and high bytes") {
  const std::string stop("\0\xFF\0", 3);
  CHECK(run({stop}, {std::string("a\0", 2), std::string("\xFF\0b", 3)}) == Ending{"a", stop});
}

TEST_CASE("after a stop nothing is delivered") {
  StopMatcher matcher({"x"});
  CHECK(matcher.feed("axb").stop == "x");
  CHECK(matcher.feed("c").text == "");
  CHECK_FALSE(matcher.feed("x").stop);
  CHECK(matcher.finish().text == "");
}

TEST_CASE("the automaton agrees with a search of the whole text") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto string_of = [&](std::size_t longest) {
    std::string s;
    for (std::size_t n = random() % (longest + 1); n > 0; --n) s += "abc"[random() % 3];
    return s;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t n = random() % 4; n > 0; --n) stops.push_back(string_of(6));
    const std::string text = string_of(24);
    std::vector<std::string> deltas;
    for (std::size_t at = 0; at < text.size(); at += deltas.back().size()) {
      deltas.push_back(text.substr(at, 1 + random() % 5));
    }
    INFO(text);
    REQUIRE(run(stops, deltas) == naive(stops, text));
  }
}

TEST_CASE("time per byte does not depend on the text") {
  const std::string stop = std::string(5000, 'a') + "b";
  StopMatcher matcher({stop});
  const auto start = std::chrono::steady_clock::now();
  std::size_t delivered = 0;
  for (int i = 0; i < 1000; ++i) delivered += matcher.feed(std::string(1000, 'a')).text.size();
  delivered += matcher.finish().text.size();
  CHECK(delivered == 1'000'000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

}  // namespace quire::text
