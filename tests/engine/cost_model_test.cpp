#include "engine/cost_model.h"

#include "catch.h"

namespace quire {

using namespace std::chrono_literals;

TEST_CASE("without experience a chunk is small, and smaller under a time budget", "[cost]") {
  const CostModel costs(20ms);
  CHECK(costs.chunk(0) == 32);
  CHECK(costs.chunk(0.003) == 16);
}

TEST_CASE("a chunk at most doubles a decode pass", "[cost]") {
  CostModel costs(20ms);
  costs.add_pass(4, 0, 0.020);    // decoding takes 20 ms
  costs.add_pass(0, 100, 0.025);  // a prompt token 0.25 ms
  CHECK(costs.chunk(0) == 80);    // 20 ms of prompt
  costs.add_pass(0, 1000, 10.0);  // 10 ms each: the average is 0.75 * 0.25 + 0.25 * 10 = 2.6875 ms
  CHECK(costs.chunk(0) == 32);    // never below 32 without a budget
}

TEST_CASE("where decoding is quick a pass with a chunk lasts 20 ms", "[cost]") {
  CostModel costs(20ms);
  costs.add_pass(4, 0, 0.004);
  costs.add_pass(0, 1000, 0.025);  // a prompt token 25 us
  CHECK(costs.chunk(0) == 640);    // 16 ms of prompt
  costs.add_pass(4, 640, 0.020);   // as foreseen
  CHECK(costs.chunk(0) == 640);
}

TEST_CASE("under a time budget a pass lasts about four of them", "[cost]") {
  CostModel costs(20ms);
  costs.add_pass(4, 0, 0.004);
  costs.add_pass(0, 100, 0.025);
  CHECK(costs.chunk(0.003) == 32);  // (12 - 4) ms of prompt at 0.25 ms
  CHECK(costs.chunk(0.001) == 8);   // decoding alone takes the four budgets: the least
}

TEST_CASE("without a time for passes with prompts, nothing but the pass's size limits a chunk") {
  CostModel costs(0ms);
  CHECK(costs.chunk(0) == 0);
  costs.add_pass(8, 0, 0.010);
  costs.add_pass(8, 100, 0.110);
  CHECK(costs.chunk(0) == 0);
  CHECK(costs.chunk(0.010) == 30);  // a budget still does: (4 * 10 - 10) ms of 1 ms each
}

}  // namespace quire
