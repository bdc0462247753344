#include "base/shared_prefix.h"

#include <algorithm>
#include <random>

#include "paged_errors.h"

namespace quire::test {
namespace {

using cuda::PrefixFinder;
using cuda::SharedPrefix;

// Sequences of one row each on page tables, one after the other.
struct Tables {
  std::vector<std::vector<PageId>> pages;
  std::vector<int> positions;

  std::vector<SequenceRows> rows() const {
    std::vector<SequenceRows> rows;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      rows.push_back({static_cast<int>(i), 1, positions[i], pages[i].data(),
                      static_cast<int>(pages[i].size())});
    }
    return rows;
  }
};

// The same by comparing every run of sequences with its first.
std::int64_t most_saved(const Tables& tables, int page_size) {
  std::int64_t most = 0;
  for (std::size_t first = 0; first < tables.pages.size(); ++first) {
    int pages = tables.positions[first] / page_size;
    if (pages > 0 && tables.pages[first][0] < 0) pages = 0;
    for (std::size_t i = first + 1; i < tables.pages.size(); ++i) {
      int same = 0;
      const int limit = std::min(pages, tables.positions[i] / page_size);
      while (same < limit && tables.pages[i][same] == tables.pages[first][same]) ++same;
      pages = same;
      const int keys = pages * page_size / 64 * 64;
      most = std::max(most, static_cast<std::int64_t>(i - first) * keys);
    }
  }
  return most;
}

TEST_CASE("the shared prefix is the one that saves most, of pages that all its sequences name") {
  PrefixFinder finder;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const int page_size = 8 << below(5);
    Tables tables;
    for (int i = below(12); i >= 0; --i) {
      const int position = below(600);
      std::vector<PageId> pages(position / page_size + 1);
      // Few different ids, so that tables part late, and come together again.
      for (std::size_t p = 0; p < pages.size(); ++p) {
        pages[p] = static_cast<PageId>(p * 10) + (below(40) == 0 ? 1 : 0);
      }
      if (below(15) == 0) pages[0] = kNoPage;
      tables.pages.push_back(pages);
      tables.positions.push_back(position);
    }
    const SharedPrefix found = finder.find(tables.rows(), page_size);
    const std::int64_t most = most_saved(tables, page_size);
    if (most == 0) {
      CHECK(found.sequences == 0);
      continue;
    }
    CHECK(std::int64_t{found.sequences - 1} * found.keys == most);
    CHECK(found.keys % 64 == 0);
    for (int i = found.first; i < found.first + found.sequences; ++i) {
      CHECK(tables.positions[i] >= found.keys);
      for (int key = 0; key < found.keys; key += page_size) {
        REQUIRE(tables.pages[i][key / page_size] == tables.pages[found.first][key / page_size]);
      }
    }
  }
}

TEST_CASE("a pass without sequences, or of one, shares no prefix") {
  CHECK(PrefixFinder().find({}, 16).sequences == 0);
  const Tables one{{{0, 1, 2, 3, 4, 5, 6, 7, 8}}, {130}};
  CHECK(PrefixFinder().find(one.rows(), 16).sequences == 0);
}

const KvType kTypes[] = {KvType::bf16, KvType::f16, KvType::int8, KvType::fp8};
const int kHeadSizes[] = {16, 24, 32, 64, 80, 96, 128, 192, 256};

// Decoding sequences of which some stand on a prefix.
struct Sharers {
  CaseShape shape;
  SharedPrefix prefix;
  std::vector<int> lengths;
  std::vector<Part> parts;
  int common = 0;

  void add(int own) {
    lengths.push_back(common + own);
    parts.push_back({static_cast<int>(parts.size()), common + own - 1, 1});
  }
};

// Of every `step`-th sequence.
Errors errors_of_some(const PagedCase& the_case, const std::vector<Part>& parts,
                      const std::vector<std::uint16_t>& output, int step) {
  const std::size_t size = output.size() / parts.size();
  std::vector<Part> some;
  std::vector<std::uint16_t> rows;
  for (std::size_t i = 0; i < parts.size(); i += step) {
    some.push_back(parts[i]);
    rows.insert(rows.end(), output.begin() + i * size, output.begin() + (i + 1) * size);
  }
  return errors_of(the_case, some, rows);
}

void check_sharers(const Sharers& sharers, std::uint64_t seed, int step = 1) {
  const CaseShape& shape = sharers.shape;
  const std::vector<Part>& parts = sharers.parts;
  CAPTURE(static_cast<int>(shape.type), shape.page_size, shape.heads, shape.kv_heads,
          shape.head_size, shape.soft_cap, shape.sinks, seed, sharers.prefix.first,
          sharers.prefix.sequences, sharers.prefix.keys, sharers.lengths.size());
  PagedCase the_case(shape, sharers.lengths, seed, sharers.common);
  const std::vector<std::uint16_t> apart = the_case.attend(parts);
  const Errors errors_apart = errors_of_some(the_case, parts, apart, step);
  // What is not read once is NaN.
  the_case.set_prefix(sharers.prefix);
  for (const int capability : {0, testing::compute_capability()}) {
    CAPTURE(capability);
    the_case.set_compute_capability(capability);
    const std::vector<std::uint16_t> output = the_case.attend(parts, seed % 3 == 0);
    const Errors errors = errors_of_some(the_case, parts, output, step);
    CHECK(errors.largest < 0.02);
    CHECK(errors.mean < 0.004);
    CHECK(errors.mean < 1.2 * errors_apart.mean + 2e-4);
    CHECK(std::count_if(output.begin(), output.end(),
                        [](std::uint16_t x) { return std::isnan(from_bfloat16(x)); }) == 0);
  }
}

TEST_CASE("keys that sequences share are read once, with the result of float64") {
  if (!has_gpu()) return;
  for (std::uint64_t seed = 1; seed < 29; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    Sharers sharers;
    CaseShape& shape = sharers.shape;
    // Every other time what has a kernel of its own on Hopper.
    shape.head_size = seed % 2 == 0 ? 64 << below(2) : kHeadSizes[seed % 9];
    shape.type = seed % 2 == 0 ? KvType::bf16 : kTypes[seed / 2 % 4];
    shape.page_size = std::max(8 << below(5), shape.type == KvType::fp8 ? 16 : 8);
    shape.kv_heads = 1 + below(3);
    const int groups[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32};
    shape.heads = shape.kv_heads * groups[below(shape.kv_heads > 1 ? 7 : 10)];
    shape.soft_cap = below(3) == 0 ? 5.0f : 0.0f;
    shape.sinks = below(3) == 0;
    sharers.prefix.keys = 64 * (1 + below(below(4) == 0 ? 20 : 5));
    // The pages that are shared may go on behind the prefix.
    sharers.common =
        (sharers.prefix.keys + shape.page_size - 1) / shape.page_size * shape.page_size;
    sharers.prefix.first = below(2) == 0 ? 0 : below(4);
    sharers.prefix.sequences = 2 + below(below(3) == 0 ? 140 / (shape.heads / shape.kv_heads) : 9);
    const int count = sharers.prefix.first + sharers.prefix.sequences + below(4);
    for (int i = 0; i < count; ++i) sharers.add(1 + below(below(6) == 0 ? 900 : 150));
    check_sharers(sharers, seed);
  }
}

TEST_CASE("a prefix of many tokens is cut, and one of many sequences has several tiles") {
  if (!has_gpu()) return;
  Sharers sharers;
  sharers.shape.heads = 8;
  sharers.shape.kv_heads = 2;
  sharers.shape.head_size = 128;
  sharers.shape.page_size = 64;
  sharers.prefix = {1, 5, 6080};
  sharers.common = 6080;
  for (int i = 0; i < 7; ++i) sharers.add(1 + 70 * i);
  check_sharers(sharers, 100);
  // So many rows that there is room for the partial results of some sequences only.
  Sharers many;
  many.shape.heads = 64;
  many.shape.kv_heads = 4;
  many.shape.head_size = 16;
  many.prefix = {0, 500, 128};
  many.common = 128;
  for (int i = 0; i < 500; ++i) many.add(1 + (i % 50 == 0 ? 1500 : i % 40));
  check_sharers(many, 102, 25);
}

TEST_CASE("where sharing a prefix would change bits or is not possible, nothing is shared") {
  if (!has_gpu()) return;
  struct Variant {
    bool deterministic;
    int heads, window, sequences;
  };
  // There is room for the partial results of 512 rows for each multiprocessor.
  const int too_many = DeviceStream().launch.multiprocessors * 512 / 128 + 8;
  for (const Variant& variant : {Variant{true, 8, 0, 9}, Variant{false, 8, 50, 9},
                                 Variant{false, 66, 0, 9}, Variant{false, 128, 0, too_many}}) {
    CAPTURE(variant.deterministic, variant.heads, variant.window, variant.sequences);
    CaseShape shape;
    shape.heads = variant.heads;
    shape.kv_heads = shape.heads == 66 ? 2 : 4;
    shape.head_size = 16;
    shape.window = variant.window;
    Sharers sharers;
    sharers.common = 64;
    for (int i = 0; i < variant.sequences; ++i) sharers.add(1 + i % 3);
    PagedCase the_case(shape, sharers.lengths, 5, sharers.common);
    the_case.set_deterministic(variant.deterministic);
    the_case.set_compute_capability(testing::compute_capability());
    const auto apart = the_case.attend(sharers.parts);
    the_case.set_prefix(SharedPrefix{0, variant.sequences, 64}, true);
    CHECK(difference(the_case.attend(sharers.parts), apart) == "");
  }
}

}  // namespace
}  // namespace quire::test
