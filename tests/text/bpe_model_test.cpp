#include "text/bpe_model.h"

#include <algorithm>
#include <map>
#include <random>

#include "catch.h"

namespace quire::text {
namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(const BpeModel& model, std::string_view word) {
  BpeModel::Scratch scratch;
  Ids ids;
  model.encode(word, scratch, ids);
  return ids;
}

// Merges the first best pair of the whole word, again and again.
std::vector<std::string> naive(const std::vector<std::pair<std::string, std::string>>& merges,
                               const std::string& word) {
  std::map<std::pair<std::string, std::string>, int> rank;
  for (std::size_t i = 0; i < merges.size(); ++i) rank.emplace(merges[i], static_cast<int>(i));
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    int best = -1;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = rank.find({parts[i], parts[i + 1]});
      if (found == rank.end() || (best >= 0 && found->second >= best)) continue;
      best = found->second;
      where = i;
    }
    if (best < 0) return parts;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

BpeVocabulary letters(std::initializer_list<std::string> texts) {
  BpeVocabulary vocabulary;
  std::int32_t id = 0;
  for (const auto& text : texts) vocabulary.entries.push_back({text, id++});
  return vocabulary;
}

}  // namespace

TEST_CASE("fast BPE gives what merging step by step gives") {
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    // Merges of random earlier parts; a repeated pair keeps its first rank.
    std::vector<std::string> parts = {"a", "b", "c"};
    BpeVocabulary vocabulary;
    for (std::size_t n = random() % 30; n > 0; --n) {
      const std::string left = parts[random() % parts.size()];
      const std::string right = parts[random() % parts.size()];
      vocabulary.merges.emplace_back(left, right);
      parts.push_back(left + right);
    }
    std::map<std::string, std::int32_t> id_of;
    for (const auto& part : parts) id_of.emplace(part, static_cast<std::int32_t>(id_of.size()));
    for (const auto& [text, id] : id_of) vocabulary.entries.push_back({text, id});
    const auto merges = vocabulary.merges;
    const BpeModel model(std::move(vocabulary));
    for (int word = 0; word < 30; ++word) {
      std::string text;
      for (std::size_t n = random() % 40; n > 0; --n) text += "abc"[random() % 3];
      Ids expected;
      for (const auto& part : naive(merges, text)) expected.push_back(id_of.at(part));
      INFO(text);
      REQUIRE(encode(model, text) == expected);
    }
  }
}

TEST_CASE("a merge may pass through a text that is no token") {
  auto vocabulary = letters({"a", "b", "c", "abc"});
  vocabulary.merges = {{"a", "b"}, {"ab", "c"}};
  const BpeModel model(std::move(vocabulary));
  CHECK(encode(model, "abc") == Ids{3});
  CHECK(encode(model, "abb") == Ids{0, 1, 1});  // "ab" falls back to its bytes
}

TEST_CASE("ignore_merges takes a word that is a token as it is") {
  auto vocabulary = letters({"a", "b", "ab"});
  const BpeModel plain(vocabulary);
  CHECK(encode(plain, "ab") == Ids{0, 1});
  vocabulary.ignore_merges = true;
  const BpeModel model(std::move(vocabulary));
  CHECK(encode(model, "ab") == Ids{2});
  CHECK(encode(model, "aba") == Ids{0, 1, 0});
}

TEST_CASE("bytes without a token are dropped or become the unknown token") {
  auto vocabulary = letters({"a", "b"});
  CHECK(encode(BpeModel(vocabulary), std::string("a\0b", 3)) == Ids{0, 1});
  vocabulary.unknown = 7;
  CHECK(encode(BpeModel(vocabulary), "axyb") == Ids{0, 7, 7, 1});
  vocabulary.fuse_unknown = true;
  CHECK(encode(BpeModel(vocabulary), "axyb") == Ids{0, 7, 1});
}

TEST_CASE("characters without a token fall back to byte tokens") {
  auto vocabulary = letters({"a", "\u00E9"});
  vocabulary.alphabet = BpeVocabulary::Alphabet::characters;
  for (int byte = 0; byte < 256; ++byte) vocabulary.byte_tokens[byte] = 100 + byte;
  const BpeModel model(vocabulary);
  CHECK(encode(model, "a\u00E9\u20AC") == Ids{0, 1, 100 + 0xE2, 100 + 0x82, 100 + 0xAC});
  vocabulary.byte_tokens[0x82] = -1;  // one is missing: none is used
  vocabulary.unknown = 5;
  CHECK(encode(BpeModel(vocabulary), "a\u20AC") == Ids{0, 5});
}

TEST_CASE("an empty word has no ids") {
  CHECK(encode(BpeModel(letters({"a"})), "").empty());
}

}  // namespace quire::text
