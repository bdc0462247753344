#include "batching/simulation.h"
#include "catch.h"

namespace quire::test {
namespace {

BatcherOptions roomy(int page_size = 4) {
  BatcherOptions o;
  o.page_size = page_size;
  o.page_counts = {100};
  o.windows = {0};
  o.context = 100;
  o.max_running = 8;
  o.max_step_tokens = 100;
  return o;
}

BatchRequest choices(int prompt, int max_tokens, int n) {
  BatchRequest r = make_request(some_tokens(3, prompt, kManyWords), max_tokens);
  r.n = n;
  return r;
}

}  // namespace

TEST_CASE("four answers compute the prompt once and share its pages") {
  Simulation sim(roomy(), 1, kManyWords);
  sim.submit(choices(10, 5, 4));
  Plan plan = sim.plan();
  CHECK(plan.tokens.size() == 10);
  CHECK(plan.logit_rows == std::vector<std::int32_t>{9});
  REQUIRE(plan.draws.size() == 4);
  for (int c = 0; c < 4; ++c) {
    CHECK(plan.draws[static_cast<std::size_t>(c)].choice == c);
    CHECK(plan.draws[static_cast<std::size_t>(c)].logit_row == 0);
    CHECK(plan.draws[static_cast<std::size_t>(c)].sequence == plan.slices[0].sequence);
  }
  sim.commit(plan);
  CHECK(sim.batcher.running() == 4);
  CHECK(sim.batcher.pages().in_use == 3);

  // All but one copy the last, partly filled page; the first two pages stay shared.
  plan = sim.plan();
  CHECK(plan.tokens.size() == 4);
  REQUIRE(plan.copies.size() == 3);
  for (const PageCopy& copy : plan.copies) CHECK(copy.tokens == 2);
  CHECK(sim.batcher.pages().in_use == 2 + 4);
  for (const PlanSlice& s : plan.slices) {
    CHECK(plan.page_table(s, 0)[0] == plan.page_table(plan.slices[0], 0)[0]);
    CHECK(plan.page_table(s, 0)[1] == plan.page_table(plan.slices[0], 0)[1]);
  }
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("answers that fork at a page's end copy nothing") {
  Simulation sim(roomy(), 1, kManyWords);
  sim.submit(choices(8, 5, 3));
  sim.step();
  const Plan plan = sim.plan();
  CHECK(plan.copies.empty());
  CHECK(sim.batcher.pages().in_use == 2 + 3);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("an answer may end at its first token while its siblings go on") {
  // With two tokens, about half of the first draws are the end.
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Simulation sim(roomy(), seed, 2);
    BatchRequest r =
        make_request(some_tokens(seed, 10 + static_cast<int>(seed % 4), kManyWords), 6);
    r.n = 5;
    sim.submit(r);
    REQUIRE_NOTHROW(sim.run_all());
  }
}

TEST_CASE("one token for each of several answers needs one pass") {
  Simulation sim(roomy(), 1, kManyWords);
  sim.submit(choices(10, 1, 4));
  sim.step();
  CHECK(sim.live() == 0);
  CHECK(sim.batcher.pages().in_use == 0);
}

TEST_CASE("cancelling a request ends all of its answers") {
  // vllm #14326
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId id = sim.submit(choices(10, 20, 2));
  for (int i = 0; i < 3; ++i) sim.step();
  CHECK(sim.batcher.running() == 2);
  CHECK(sim.cancel(id));
  CHECK(sim.batcher.running() == 0);
  CHECK(sim.batcher.pages().in_use == 0);
  CHECK(sim.plan().empty());
}

TEST_CASE("before the fork every choice's tokens are the prompt") {
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId id = sim.submit(choices(10, 3, 2));
  REQUIRE(sim.batcher.tokens(id, 1) != nullptr);
  CHECK(sim.batcher.tokens(id, 1)->size() == 10);
  CHECK(sim.batcher.tokens(id, 2) == nullptr);
  CHECK(sim.batcher.tokens(id, -1) == nullptr);
  sim.step();
  CHECK(sim.batcher.tokens(id, 1)->size() == 11);
  CHECK(sim.batcher.tokens(id, 0) != sim.batcher.tokens(id, 1));
  sim.run_all();
  CHECK(sim.batcher.tokens(id, 0) == nullptr);
}

TEST_CASE("forks in a pool that just holds them never preempt each other") {
  for (int page_size : {1, 3, 4, 8}) {
    for (int prompt : {1, 7, 8, 12}) {
      for (int n : {1, 2, 5}) {
        BatcherOptions o = roomy(page_size);
        const BatchRequest r = choices(prompt, 9, n);
        o.page_counts = {1};
        while (!Batcher(o).can_ever_fit(r).ok()) ++o.page_counts[0];
        Simulation sim(o, 1, kManyWords);
        sim.submit(r);
        sim.run_all();
        CHECK(sim.batcher.preemptions() == 0);
      }
    }
  }
}

}  // namespace quire::test
