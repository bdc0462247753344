#include "batching/simulation.h"
#include "catch.h"

namespace quire::test {
namespace {

BatcherOptions roomy() {
  BatcherOptions o;
  o.page_size = 4;
  o.page_counts = {100};
  o.windows = {0};
  o.context = 200;
  o.max_running = 8;
  o.max_step_tokens = 32;
  return o;
}

std::vector<RequestId> planned(const Plan& plan) {
  std::vector<RequestId> ids;
  for (const PlanSlice& s : plan.slices) ids.push_back(s.request);
  return ids;
}
using Ids = std::vector<RequestId>;

// Steps until a request has ended.
void run_until(Simulation& sim, RequestId id) {
  for (int i = 0; i < 1000 && sim.batcher.has_request(id); ++i) sim.step();
  REQUIRE_FALSE(sim.batcher.has_request(id));
}

}  // namespace

TEST_CASE("decodes come first, one token each, then prompt chunks within the budget") {
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId a = sim.submit(request_of_text(1, 10, 20));
  const RequestId b = sim.submit(request_of_text(2, 10, 20));
  sim.step();
  const RequestId c = sim.submit(request_of_text(3, 60, 5));
  Plan plan = sim.plan({.max_tokens = 20, .max_chunk = 9});
  CHECK(planned(plan) == Ids{a, b, c});
  CHECK(plan.decode_tokens == 2);
  CHECK(plan.prefill_tokens == 9);
  CHECK(plan.slices[0].decode);
  CHECK_FALSE(plan.slices[2].decode);
  sim.commit(plan);
  plan = sim.plan({.max_tokens = 20});
  CHECK(plan.prefill_tokens == 18);
  CHECK(plan.slices[2].first_position == 9);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("the chunk limit holds only while answers run") {
  Simulation sim(roomy(), 1, kManyWords);
  sim.submit(request_of_text(1, 60, 5));
  const Plan plan = sim.plan({.max_chunk = 5});
  CHECK(plan.prefill_tokens == 32);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("the budget left by one prompt goes to the next") {
  Simulation sim(roomy(), 1, kManyWords);
  sim.submit(request_of_text(1, 20, 1));
  sim.submit(request_of_text(2, 20, 1));
  const Plan plan = sim.plan();
  REQUIRE(plan.slices.size() == 2);
  CHECK(plan.slices[0].tokens == 20);
  CHECK(plan.slices[1].tokens == 12);
  CHECK(plan.draws.size() == 1);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("order is by priority, then by arrival") {
  BatcherOptions o = roomy();
  o.max_running = 1;
  Simulation sim(o, 1, kManyWords);
  const RequestId low = sim.submit(request_of_text(1, 8, 1, -1));
  const RequestId first = sim.submit(request_of_text(2, 8, 1));
  const RequestId second = sim.submit(request_of_text(3, 8, 1));
  const RequestId high = sim.submit(request_of_text(4, 8, 1, 5));
  for (RequestId id : {high, first, second, low}) {
    const Plan plan = sim.plan();
    CHECK(planned(plan) == Ids{id});
    sim.commit(plan);
  }
}

TEST_CASE("a pass is planned ahead while requests wait for a slot, which they get at the next") {
  BatcherOptions o = roomy();
  o.max_running = 2;
  Simulation sim(o, 1, kManyWords);
  const RequestId a = sim.submit(request_of_text(1, 10, 3));
  const RequestId b = sim.submit(request_of_text(2, 10, 20));
  sim.step();
  const RequestId c = sim.submit(request_of_text(3, 10, 20));
  Plan plan = sim.plan();
  CHECK(planned(plan) == Ids{a, b});  // the second token of each
  Plan ahead = sim.plan_ahead();
  CHECK(planned(ahead) == Ids{a, b});
  sim.commit(plan);
  Plan later = sim.plan_ahead();
  CHECK(planned(later) == Ids{b});  // the pass in flight ends the first
  sim.commit(ahead);
  CHECK_FALSE(sim.batcher.has_request(a));
  CHECK(sim.plan_ahead().empty());  // the third may join now
  sim.commit(later);
  plan = sim.plan();
  CHECK(planned(plan) == Ids{b, c});
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("a more urgent prompt goes before one that is half computed") {
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId slow = sim.submit(request_of_text(1, 100, 1));
  sim.step();
  const RequestId urgent = sim.submit(request_of_text(2, 20, 1, 1));
  const Plan plan = sim.plan();
  CHECK(planned(plan) == Ids{urgent, slow});
  CHECK(plan.slices[1].tokens == 12);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("admission reserves the whole prompt and one page") {
  for (int second : {12, 13}) {
    BatcherOptions o = roomy();
    o.page_counts = {8};
    o.context = 24;
    Simulation sim(o, 1, kManyWords);
    sim.submit(request_of_text(1, 12, 5));
    sim.submit(request_of_text(2, second, 5));
    const Plan plan = sim.plan();
    // 3 + 1 and 3 + 1 pages fit; 3 + 1 and 4 + 1 do not.
    CHECK(plan.slices.size() == (second == 12 ? 2 : 1));
    sim.commit(plan);
    sim.run_all();
  }
}

TEST_CASE("a request of several answers is admitted when all of them may run") {
  BatcherOptions o = roomy();
  o.max_running = 4;
  Simulation sim(o, 1, kManyWords);
  sim.submit(request_of_text(1, 8, 6));
  sim.submit(request_of_text(2, 8, 3));
  BatchRequest wide = request_of_text(3, 8, 4);
  wide.n = 3;
  const RequestId id = sim.submit(wide);
  Plan plan = sim.plan();
  CHECK(plan.slices.size() == 2);
  sim.commit(plan);
  while (true) {
    plan = sim.plan();
    const bool admitted = planned(plan).back() == id;
    sim.commit(plan);
    CHECK(sim.batcher.running() <= 4);
    if (admitted) break;
  }
  sim.run_all();
}

TEST_CASE("growth preempts the newest of the lowest priority") {
  BatcherOptions o = roomy();
  o.page_counts = {10};
  o.context = 32;
  Simulation sim(o, 1, kManyWords);
  const RequestId low = sim.submit(request_of_text(1, 8, 12, 0));
  const RequestId high = sim.submit(request_of_text(2, 8, 12, 1));
  const RequestId newest_low = sim.submit(request_of_text(3, 8, 12, 0));
  while (sim.batcher.preemptions() == 0) sim.step();
  CHECK(sim.batcher.report(newest_low, 0).preemptions == 1);
  sim.run_all();
  CHECK(sim.requests.at(high).report.preemptions == 0);
  CHECK(sim.requests.at(low).report.preemptions == 0);
}

TEST_CASE("a preempted answer resumes from the cache and is no other for it") {
  BatcherOptions o = roomy();
  o.page_counts = {12};
  o.context = 40;
  Simulation sim(o, 1, kManyWords);
  const RequestId first = sim.submit(request_of_text(1, 8, 20));
  const RequestId second = sim.submit(request_of_text(2, 8, 26));
  sim.run_all();  // compares with the reference
  CHECK(sim.requests.at(first).report.preemptions == 0);
  CHECK(sim.requests.at(second).report.preemptions == 1);
  CHECK(sim.requests.at(second).report.cached_tokens == 0);  // of its first admission
  // 8 + 19 and 8 + 25 rows when undisturbed. When the first has ended, most of what the second
  // had computed is still there.
  CHECK(sim.rows < 27 + 33 + 8);
}

TEST_CASE("requests that each need most of the pool all end, without endless preemption") {
  // vllm #21793: two prompts of 60 % of the pool, in chunks; and more of them
  for (int n : {2, 9}) {
    BatcherOptions o = roomy();
    o.page_counts = {20};
    o.context = 80;
    Simulation sim(o, 1, kManyWords);
    for (int i = 0; i < n; ++i) sim.submit(request_of_text(static_cast<std::uint64_t>(i), 48, 10));
    REQUIRE_NOTHROW(sim.run_all({.max_tokens = 16}, n * 20));
    CHECK(sim.batcher.preemptions() == 0);
  }
  // Short prompts that grow to 60 %: these must preempt.
  BatcherOptions o = roomy();
  o.page_counts = {20};
  o.context = 80;
  Simulation sim(o, 1, kManyWords);
  for (int i = 0; i < 6; ++i) sim.submit(request_of_text(static_cast<std::uint64_t>(i), 4, 44));
  REQUIRE_NOTHROW(sim.run_all({}, 6 * 60));
  CHECK(sim.batcher.preemptions() > 0);
}

TEST_CASE("a pool of one page serves what one page holds") {
  BatcherOptions o = roomy();
  o.page_counts = {1};
  Simulation sim(o, 1, kManyWords);
  for (int i = 0; i < 5; ++i) sim.submit(request_of_text(static_cast<std::uint64_t>(i % 2), 3, 2));
  REQUIRE_NOTHROW(sim.run_all());
}

TEST_CASE("one short prompt in chunks, then idle: every page is free or cached") {
  // sglang #6888
  Simulation sim(roomy(), 1, kManyWords);
  sim.submit(request_of_text(1, 10, 1));
  sim.run_all({.max_tokens = 4});
  const PageCounts pages = sim.batcher.pages();
  CHECK(pages.cached == 3);
  CHECK(pages.free == 97);
}

TEST_CASE("a request that finds more in the cache passes, at most max_bypasses times") {
  for (int bound : {0, 1, 3}) {
    BatcherOptions o = roomy();
    o.max_running = 1;
    o.max_bypasses = bound;
    Simulation sim(o, 1, kManyWords);
    const RequestId warm = sim.submit(request_of_text(7, 41, 1));
    sim.run_all();
    const RequestId busy = sim.submit(request_of_text(1, 4, 3));
    sim.step();
    const RequestId cold = sim.submit(request_of_text(2, 60, 1));
    std::vector<RequestId> hot;
    for (int i = 0; i < 6; ++i) hot.push_back(sim.submit(request_of_text(7, 41, 1)));
    run_until(sim, busy);
    int before = 0;
    while (!sim.requests.at(cold).done) {
      const Plan plan = sim.plan();
      if (plan.slices[0].request != cold) ++before;
      sim.commit(plan);
    }
    CHECK(before == bound);
    CHECK(sim.requests.at(cold).report.bypasses == bound);
    sim.run_all();
    CHECK(sim.requests.at(hot.back()).report.bypasses == 0);
    CHECK(sim.requests.at(hot.back()).report.cached_tokens == 40);
    CHECK(sim.requests.at(warm).report.cached_tokens == 0);
  }
}

TEST_CASE("a cached request never passes a more urgent one") {
  BatcherOptions o = roomy();
  o.max_running = 1;
  Simulation sim(o, 1, kManyWords);
  sim.submit(request_of_text(7, 41, 1));
  sim.run_all();
  const RequestId hot = sim.submit(request_of_text(7, 41, 1, 0));
  const RequestId urgent = sim.submit(request_of_text(2, 60, 1, 1));
  const Plan plan = sim.plan();
  CHECK(planned(plan) == Ids{urgent});
  sim.commit(plan);
  sim.run_all();
  CHECK(sim.requests.at(hot).report.bypasses == 0);
}

TEST_CASE("a failed pass takes back its bypasses") {
  BatcherOptions o = roomy();
  o.max_running = 1;
  o.max_bypasses = 1;
  Simulation sim(o, 1, kManyWords);
  sim.submit(request_of_text(7, 41, 1));
  sim.run_all();
  const RequestId cold = sim.submit(request_of_text(2, 60, 1));
  const RequestId hot = sim.submit(request_of_text(7, 41, 1));
  for (int i = 0; i < 3; ++i) {
    const Plan plan = sim.plan();
    CHECK(planned(plan) == Ids{hot});
    sim.fail(plan);
  }
  sim.run_all();
  CHECK(sim.requests.at(cold).report.bypasses == 1);
}

TEST_CASE("of two requests with the same prefix one computes it and the other waits") {
  // vllm #29387, #17305: never reads what the same pass writes
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId producer = sim.submit(request_of_text(1, 21, 3));
  const RequestId waiter = sim.submit(request_of_text(1, 21, 3));
  const RequestId other = sim.submit(request_of_text(2, 5, 3));
  Plan plan = sim.plan();
  CHECK(planned(plan) == Ids{producer, other});
  sim.commit(plan);
  plan = sim.plan();
  CHECK(planned(plan) == Ids{producer, other, waiter});
  sim.commit(plan);
  sim.run_all();
  // Five whole pages are there at the commit; the partly filled one is still the producer's.
  CHECK(sim.requests.at(waiter).report.cached_tokens == 20);
  CHECK(sim.requests.at(waiter).report.bypasses == 0);
}

TEST_CASE("a waiter takes over what its producer has left, and computes the rest") {
  for (int how : {0, 1}) {
    Simulation sim(roomy(), 1, kManyWords);
    const RequestId producer = sim.submit(request_of_text(1, 61, 3));
    const RequestId waiter = sim.submit(request_of_text(1, 61, 3));
    sim.step({.max_tokens = 10});
    Plan plan = sim.plan({.max_tokens = 10});
    CHECK(planned(plan) == Ids{producer});
    if (how == 0) {
      sim.commit(plan);
      sim.cancel(producer);
    } else {
      sim.cancel(producer);
      sim.commit(plan);
    }
    plan = sim.plan({.max_tokens = 10});
    CHECK(planned(plan) == Ids{waiter});
    CHECK(plan.slices[0].first_position == (how == 0 ? 20 : 8));
    sim.commit(plan);
    sim.run_all();
  }
}

TEST_CASE("a producer whose pass failed computes again, and the waiter after it") {
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId producer = sim.submit(request_of_text(1, 21, 3));
  const RequestId waiter = sim.submit(request_of_text(1, 21, 3));
  for (int i = 0; i < 3; ++i) {
    const Plan plan = sim.plan();
    CHECK(planned(plan) == Ids{producer});
    sim.fail(plan);
  }
  sim.run_all();
  CHECK(sim.requests.at(waiter).report.cached_tokens == 20);
}

TEST_CASE("a waiter that parts from its producer goes on as soon as they part") {
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId producer = sim.submit(request_of_text(1, 100, 1));
  std::vector<std::int32_t> prompt = some_tokens(1, 12, kManyWords);
  const auto rest = some_tokens(9, 10, kManyWords);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  const RequestId waiter = sim.submit(make_request(prompt, 1));
  Plan plan = sim.plan({.max_tokens = 14});
  CHECK(planned(plan) == Ids{producer});
  sim.commit(plan);
  plan = sim.plan();
  CHECK(planned(plan) == Ids{producer});  // the budget is the producer's
  sim.commit(plan);
  sim.run_all();
  CHECK(sim.requests.at(waiter).report.cached_tokens == 12);
}

TEST_CASE("a producer inherits the urgency of the request that waits for it") {
  Simulation sim(roomy(), 1, kManyWords);
  const RequestId slow = sim.submit(request_of_text(1, 100, 1, 0));
  sim.step();
  const RequestId middle = sim.submit(request_of_text(2, 60, 1, 1));
  const RequestId urgent = sim.submit(request_of_text(1, 100, 1, 2));
  for (int i = 0; i < 2; ++i) {
    const Plan plan = sim.plan();
    CHECK(planned(plan) == Ids{slow});
    sim.commit(plan);
  }
  run_until(sim, urgent);
  CHECK(sim.batcher.has_request(middle));
  CHECK(sim.requests.at(urgent).report.cached_tokens == 99);
  sim.run_all();
}

TEST_CASE("with a budget below the running answers all of them end") {
  Simulation sim(roomy(), 1, kManyWords);
  for (int i = 0; i < 6; ++i) sim.submit(request_of_text(static_cast<std::uint64_t>(i), 4, 10));
  REQUIRE_NOTHROW(sim.run_all({.max_tokens = 2}, 200));
}

}  // namespace quire::test
