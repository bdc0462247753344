#include "batching/simulation.h"
#include "catch.h"

namespace quire::test {
namespace {

BatcherOptions roomy(int page_size = 4, std::vector<int> windows = {0}) {
  BatcherOptions o;
  o.page_size = page_size;
  o.page_counts.assign(windows.size(), 200);
  o.windows = std::move(windows);
  o.context = 400;
  o.max_running = 8;
  o.max_step_tokens = 200;
  return o;
}

// Runs one request alone and returns how many of its prompt tokens came from the cache.
int cached_tokens(Simulation& sim, BatchRequest request) {
  const RequestId id = sim.submit(std::move(request));
  sim.run_all();
  return sim.requests.at(id).report.cached_tokens;
}

std::vector<std::int32_t> plus(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::int32_t> words(std::uint64_t seed, int count) {
  return some_tokens(seed, count, kManyWords);
}

}  // namespace

TEST_CASE("a prompt seen before is computed from its last token on") {
  for (int page_size : {1, 2, 4, 16, 64}) {
    for (int length : {1, 2, 15, 16, 17, 32, 63, 64, 65}) {
      INFO("page " << page_size << ", prompt " << length);
      Simulation sim(roomy(page_size), 1, kManyWords);
      CHECK(cached_tokens(sim, make_request(words(1, length), 3)) == 0);
      const int rows = sim.rows;
      CHECK(cached_tokens(sim, make_request(words(1, length), 3)) == length - 1);
      CHECK(sim.rows - rows == 3);  // the last prompt token and two of the answer
    }
  }
}

TEST_CASE("the next turn of a chat starts where the last one ended") {
  Simulation sim(roomy(16), 1, kManyWords);
  const auto prompt = words(1, 21);
  const RequestId id = sim.submit(make_request(prompt, 10));
  sim.run_all();
  const auto turn = plus(plus(prompt, sim.requests.at(id).answers[0]), words(9, 7));
  // 21 prompt and 10 answer tokens; the last token of the answer was never computed.
  CHECK(cached_tokens(sim, make_request(turn, 4)) == 30);
}

TEST_CASE("texts that part inside a page share what they have in common") {
  Simulation sim(roomy(16), 1, kManyWords);
  const auto common = words(1, 37);
  CHECK(cached_tokens(sim, make_request(plus(common, words(2, 20)), 2)) == 0);
  const RequestId id = sim.submit(make_request(plus(common, words(3, 20)), 2));
  const Plan plan = sim.plan();
  REQUIRE(plan.copies.size() == 1);
  CHECK(plan.copies[0].tokens == 37 - 32);
  CHECK(plan.copies[0].to == plan.page_table(plan.slices[0], 0)[2]);
  CHECK(plan.slices[0].first_position == 37);
  sim.commit(plan);
  sim.run_all();
  CHECK(sim.requests.at(id).report.cached_tokens == 37);
}

TEST_CASE("tenants, RoPE choices and requests without cache share nothing") {
  Simulation sim(roomy(), 1, kManyWords);
  const BatchRequest base = make_request(words(1, 30), 3);
  CHECK(cached_tokens(sim, base) == 0);
  BatchRequest other = base;
  other.tenant = "b";
  CHECK(cached_tokens(sim, other) == 0);
  BatchRequest rope = base;
  rope.rope_choice = 1;
  CHECK(cached_tokens(sim, rope) == 0);
  BatchRequest blind = base;
  blind.use_prefix_cache = false;
  CHECK(cached_tokens(sim, blind) == 0);
  CHECK(cached_tokens(sim, base) == 29);
  CHECK(cached_tokens(sim, other) == 29);
  CHECK(cached_tokens(sim, rope) == 29);

  Simulation fresh(roomy(), 1, kManyWords);
  CHECK(cached_tokens(fresh, blind) == 0);
  CHECK(fresh.batcher.pages().cached == 0);  // it left nothing
  CHECK(cached_tokens(fresh, base) == 0);
}

TEST_CASE("without the prefix cache nothing is kept") {
  BatcherOptions o = roomy();
  o.prefix_cache = false;
  Simulation sim(o, 1, kManyWords);
  CHECK(cached_tokens(sim, make_request(words(1, 30), 3)) == 0);
  CHECK(cached_tokens(sim, make_request(words(1, 30), 3)) == 0);
  CHECK(sim.batcher.pages().free == sim.batcher.pages().total);
  CHECK(sim.batcher.prefix_queries() == 0);
}

TEST_CASE("prompt logits are those of every row, whatever is cached") {
  // vllm #8268, #13105: ids 0 ... 32 with pages of 32, twice
  for (int page_size : {16, 32}) {
    Simulation sim(roomy(page_size), 1, kManyWords);
    std::vector<std::int32_t> prompt;
    for (int i = 0; i <= 32; ++i) prompt.push_back(i);
    BatchRequest r = make_request(prompt, 0);
    r.prompt_logits = true;
    for (int round = 0; round < 2; ++round) {
      const RequestId id = sim.submit(r);
      const Plan plan = sim.plan();
      CHECK(plan.prompt_logit_rows.size() == 32);
      CHECK(plan.draws.empty());
      CHECK(plan.logit_rows.empty());
      sim.commit(plan);
      CHECK(sim.requests.at(id).done);
      CHECK(sim.requests.at(id).report.cached_tokens == 0);
    }
    r.prompt_logits = false;
    r.max_tokens = 2;
    CHECK(cached_tokens(sim, r) == 32);  // it published
  }
}

TEST_CASE("prompt logits come before the first draw, which is of the last row") {
  Simulation sim(roomy(), 1, kManyWords);
  BatchRequest r = make_request(words(1, 10), 2);
  r.prompt_logits = true;
  sim.submit(r);
  Plan plan = sim.plan({.max_tokens = 7});
  CHECK(plan.prompt_logit_rows == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(plan.draws.empty());
  sim.commit(plan);
  plan = sim.plan({.max_tokens = 7});
  CHECK(plan.prompt_logit_rows == std::vector<std::int32_t>{0, 1});
  REQUIRE(plan.draws.size() == 1);
  CHECK(plan.logit_rows == std::vector<std::int32_t>{2});
  sim.commit(plan);
  plan = sim.plan();
  CHECK(plan.prompt_logit_rows.empty());
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("answers are the same for any chunk, cold and cached") {
  for (const std::vector<int>& windows : {std::vector<int>{0}, {0, 6}, {3}}) {
    for (int chunk : {1, 7, 200}) {
      INFO("chunk " << chunk);
      Simulation sim(roomy(4, windows), 1);  // compares with the reference
      sim.submit(make_request(some_tokens(1, 50), 20));
      REQUIRE_NOTHROW(sim.run_all({.max_tokens = chunk}));
      sim.submit(make_request(some_tokens(1, 50), 20));
      REQUIRE_NOTHROW(sim.run_all({.max_tokens = chunk}));
    }
  }
}

TEST_CASE("a window group gives back what no later query sees") {
  Simulation sim(roomy(4, {0, 6}), 1, kManyWords);
  BatchRequest r = make_request(words(1, 21), 20);
  r.use_prefix_cache = false;
  sim.submit(r);
  sim.step();
  // Next position 21 sees 16 ... 21: pages 4 and 5 of 6 stay in the window group.
  CHECK(sim.batcher.pages().in_use == 6 + 2);
  const Plan plan = sim.plan();
  CHECK(plan.page_table(plan.slices[0], 1)[3] == kNoPage);
  CHECK(plan.page_table(plan.slices[0], 1)[4] != kNoPage);
  CHECK(plan.page_table(plan.slices[0], 0)[0] != kNoPage);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("cached pages make room for new ones, the oldest text first") {
  BatcherOptions o = roomy();
  o.page_counts = {12};
  o.context = 48;
  Simulation sim(o, 1, kManyWords);
  cached_tokens(sim, make_request(words(1, 16), 1));  // 4 pages each
  cached_tokens(sim, make_request(words(2, 16), 1));
  CHECK(cached_tokens(sim, make_request(words(1, 16), 1)) == 15);  // 1 is the newer one now
  cached_tokens(sim, make_request(words(3, 24), 1));               // 6 pages: evicts 2, in part
  CHECK(cached_tokens(sim, make_request(words(1, 16), 1)) == 15);
  CHECK(cached_tokens(sim, make_request(words(2, 16), 1)) < 15);
}

TEST_CASE("what was found keeps its place while its own pages make room") {
  BatcherOptions o = roomy(2, {1});
  o.page_counts = {4};
  Simulation sim(o, 1, kManyWords);
  cached_tokens(sim, make_request(words(1, 4), 1));
  cached_tokens(sim, make_request(words(2, 4), 1));
  std::vector<std::int32_t> longer = words(1, 4);
  for (std::int32_t token : words(3, 4)) longer.push_back(token);
  // A query sees itself alone: nothing of the found pages is needed, so that they are the first to
  // go.
  CHECK(cached_tokens(sim, make_request(longer, 1)) == 4);
}

TEST_CASE("a cached prompt that fills the pool is served again") {
  BatcherOptions o = roomy();
  o.page_counts = {3};
  Simulation sim(o, 1, kManyWords);
  // The page to copy from would be one too many.
  CHECK(cached_tokens(sim, make_request(words(1, 12), 1)) == 0);
  CHECK(cached_tokens(sim, make_request(words(1, 12), 1)) == 8);
}

TEST_CASE("clearing the cache keeps what sequences use") {
  Simulation sim(roomy(), 1, kManyWords);
  cached_tokens(sim, make_request(words(1, 20), 2));
  sim.submit(make_request(words(2, 20), 10));
  sim.step();
  sim.batcher.clear_cache();
  sim.check();
  CHECK(sim.batcher.pages().cached == 0);
  CHECK(sim.batcher.pages().in_use == 5);
  sim.run_all();
  CHECK(cached_tokens(sim, make_request(words(1, 20), 2)) == 0);
  CHECK(cached_tokens(sim, make_request(words(2, 20), 2)) == 19);
}

TEST_CASE("the counts of queries and hits are those of committed admissions") {
  Simulation sim(roomy(), 1, kManyWords);
  cached_tokens(sim, make_request(words(1, 20), 2));
  sim.submit(make_request(words(1, 20), 2));
  sim.fail(sim.plan());
  CHECK(sim.batcher.prefix_queries() == 1);
  CHECK(sim.batcher.prefix_hit_tokens() == 0);
  sim.run_all();
  CHECK(sim.batcher.prefix_queries() == 2);
  CHECK(sim.batcher.prefix_hit_tokens() == 19);
}

}  // namespace quire::test
