#include "engine/page_division.h"

#include "catch.h"

namespace quire {
namespace {

// The shape of Gemma 3 270m with bf16 keys and values: 3 layers see all tokens, 15 a window of 512.
PageDemand gemma() {
  PageDemand demand;
  demand.groups = {{512, 15 * 16384}, {0, 3 * 16384}};
  demand.max_running = 8;
  demand.max_step_tokens = 512;
  demand.page_size = 16;
  return demand;
}

}  // namespace

TEST_CASE("without windows the bytes are divided by the bytes of a page", "[division]") {
  PageDemand demand = gemma();
  demand.groups = {{0, 1000}};
  const PageDivision one = divide_pages(demand, 12345);
  CHECK(one.page_counts == std::vector<int>{12});
  CHECK(one.bytes == 12000);
  CHECK(one.tokens == 12 * 16);

  demand.groups = {{0, 1000}, {0, 500}};
  CHECK(divide_pages(demand, 12345).page_counts == std::vector<int>{8, 8});
  CHECK(divide_pages(demand, 1499).page_counts == std::vector<int>{0, 0});
  CHECK(divide_pages(demand, 1499).bytes == 0);
}

TEST_CASE("a window gets what all running sequences need, the rest is for all tokens",
          "[division]") {
  // 512 tokens lie in at most 33 pages; 8 x (33 + 1), and 33 for the prompt tokens of a pass.
  const std::size_t budget = std::size_t{2000} * 18 * 16384;
  const PageDivision division = divide_pages(gemma(), budget);
  CHECK(division.page_counts == std::vector<int>{305, (2000 * 18 - 305 * 15) / 3});
  CHECK(division.bytes <= budget);
  CHECK(division.tokens == (2000 * 18 - 305 * 15) / 3 * 16);
}

TEST_CASE("the prefix cache keeps half of a window's equal share", "[division]") {
  PageDemand demand = gemma();
  demand.prefix_cache = true;
  const PageDivision division = divide_pages(demand, std::size_t{2000} * 18 * 16384);
  CHECK(division.page_counts == std::vector<int>{1000, (2000 * 18 - 1000 * 15) / 3});
}

TEST_CASE("where memory is short every group gets as many pages", "[division]") {
  const PageDivision division = divide_pages(gemma(), std::size_t{200} * 18 * 16384 + 1);
  CHECK(division.page_counts == std::vector<int>{200, 200});
  CHECK(division.bytes == std::size_t{200} * 18 * 16384);

  PageDemand windows_only = gemma();
  windows_only.groups = {{512, 4096}};
  CHECK(divide_pages(windows_only, 4096 * 5000).page_counts == std::vector<int>{5000});
}

TEST_CASE("a division never passes its bytes", "[division]") {
  for (std::size_t budget = 0; budget < 40000000; budget += 77777) {
    for (bool cache : {false, true}) {
      PageDemand demand = gemma();
      demand.prefix_cache = cache;
      const PageDivision d = divide_pages(demand, budget);
      INFO("budget " << budget);
      CHECK(d.bytes <= budget);
      CHECK(d.page_counts[0] <= d.page_counts[1]);
      CHECK(d.bytes == static_cast<std::size_t>(d.page_counts[0]) * 15 * 16384 +
                           static_cast<std::size_t>(d.page_counts[1]) * 3 * 16384);
    }
  }
}

}  // namespace quire
