#include "batching/simulation.h"
#include "catch.h"

namespace quire::test {
namespace {

BatcherOptions small() {
  BatcherOptions o;
  o.page_size = 4;
  o.page_counts = {30};
  o.windows = {0};
  o.context = 100;
  o.max_running = 4;
  o.max_step_tokens = 64;
  return o;
}

BatchRequest request(std::uint64_t seed, int prompt, int max_tokens) {
  return make_request(some_tokens(seed, prompt, kManyWords), max_tokens);
}

bool same(const Plan& a, const Plan& b) {
  return a.tokens == b.tokens && a.positions == b.positions && a.logit_rows == b.logit_rows &&
         a.draws.size() == b.draws.size() && a.copies.size() == b.copies.size();
}

}  // namespace

TEST_CASE("a failed admission keeps no page and is planned again") {
  Simulation sim(small(), 1, kManyWords);
  const RequestId id = sim.submit(request(1, 10, 5));
  const Plan first = sim.plan();
  CHECK(sim.batcher.pages().in_use == 3);
  sim.fail(first);
  CHECK(sim.batcher.pages().in_use == 0);
  CHECK(sim.batcher.pages().cached == 0);
  CHECK(sim.batcher.waiting() == 1);
  CHECK(sim.batcher.running() == 0);
  const Plan second = sim.plan();
  CHECK(same(first, second));
  sim.commit(second);
  sim.run_all();
  CHECK(sim.requests.at(id).done);
}

TEST_CASE("a failed decode gives back the page it grew by") {
  Simulation sim(small(), 1, kManyWords);
  sim.submit(request(1, 8, 5));
  sim.step();
  CHECK(sim.batcher.pages().in_use == 2);
  const Plan first = sim.plan();
  CHECK(sim.batcher.pages().in_use == 3);
  sim.fail(first);
  CHECK(sim.batcher.pages().in_use == 2);
  CHECK(sim.batcher.running() == 1);
  const Plan second = sim.plan();
  CHECK(same(first, second));
  sim.commit(second);
  sim.run_all();
}

TEST_CASE("a failed chunk keeps what earlier passes computed") {
  Simulation sim(small(), 1, kManyWords);
  sim.submit(request(1, 20, 2));
  sim.step({.max_tokens = 9});
  sim.fail(sim.plan({.max_tokens = 9}));
  CHECK(sim.batcher.pages().in_use == 5);  // reserved at admission
  const Plan plan = sim.plan({.max_tokens = 9});
  CHECK(plan.slices[0].first_position == 9);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("a fork that failed did not happen") {
  Simulation sim(small(), 1, kManyWords);
  BatchRequest r = request(1, 10, 5);
  r.n = 3;
  sim.submit(r);
  sim.fail(sim.plan());
  CHECK(sim.batcher.running() == 0);
  sim.step();
  CHECK(sim.batcher.running() == 3);
  // The copies are undone too: all three share the last page again.
  const Plan plan = sim.plan();
  CHECK(plan.copies.size() == 2);
  sim.fail(plan);
  CHECK(sim.batcher.pages().in_use == 3);
  CHECK(sim.plan().copies.size() == 2);
  sim.run_all();
}

TEST_CASE("a plan that is neither committed nor failed counts as failed") {
  Simulation sim(small(), 1, kManyWords);
  sim.submit(request(1, 10, 5));
  const Plan lost = sim.plan();
  const Plan plan = sim.plan();
  CHECK(same(lost, plan));
  sim.batcher.commit(lost, std::vector<DrawOutcome>(1), 0);  // too late: ignored
  sim.batcher.fail(lost);
  sim.check();
  CHECK(sim.batcher.pages().in_use == 3);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("an empty plan may be committed or failed") {
  Simulation sim(small(), 1, kManyWords);
  const Plan plan = sim.plan();
  CHECK(plan.empty());
  sim.batcher.commit(plan, {}, 0);
  sim.batcher.fail(plan);
  sim.check();
}

TEST_CASE("a commit without all outcomes is a failure that the check names") {
  Batcher batcher(small());
  BatchRequest r = request(1, 4, 5);
  r.id = 1;
  batcher.add(r, 0);
  const Plan plan = batcher.plan({}, 0);
  batcher.commit(plan, {}, 0);
  CHECK(batcher.has_request(1));
  CHECK(batcher.pages().in_use == 0);
  CHECK(batcher.check_invariants().code() == StatusCode::internal);
}

TEST_CASE("a cancelled request's pages are free at once, those in flight at the commit") {
  // llama.cpp #13262, #24496: queued, in prefill, decoding
  for (bool committed : {true, false}) {
    Simulation sim(small(), 1, kManyWords);
    BatcherOptions o = small();
    const RequestId queued = sim.submit(request(1, 20, 5));
    CHECK(sim.cancel(queued));
    CHECK(sim.plan().empty());
    CHECK_FALSE(sim.cancel(queued));

    for (int steps : {0, 1, 2, 3, 4}) {
      BatchRequest r = request(2, 20, 5);
      r.use_prefix_cache = false;
      r.n = 2;
      const RequestId id = sim.submit(r);
      for (int i = 0; i < steps; ++i) sim.step({.max_tokens = 9});
      const Plan plan = sim.plan({.max_tokens = 9});
      CHECK(sim.cancel(id));
      CHECK(sim.batcher.tokens(id, 0) == nullptr);
      CHECK(sim.batcher.running() == 0);
      CHECK(sim.batcher.pages().in_use >= 5);
      sim.check();
      committed ? sim.commit(plan) : sim.fail(plan);
      CHECK(sim.batcher.pages().free == o.page_counts[0]);
      CHECK(sim.plan().empty());
    }
  }
}

TEST_CASE("a sequence that is not in the pass in flight is freed at once") {
  Simulation sim(small(), 1, kManyWords);
  sim.submit(request(1, 8, 9));
  const RequestId second = sim.submit(request(2, 8, 9));
  sim.step();
  const Plan plan = sim.plan({.max_tokens = 1});  // the first alone
  CHECK(plan.slices.size() == 1);
  const int before = sim.batcher.pages().in_use;
  sim.cancel(second);
  CHECK(sim.batcher.pages().in_use == before - 2);
  sim.commit(plan);
  sim.run_all();
}

TEST_CASE("the pass of a cancelled producer publishes nothing of it") {
  Simulation sim(small(), 1, kManyWords);
  const RequestId id = sim.submit(request(1, 20, 5));
  const Plan plan = sim.plan();
  sim.cancel(id);
  sim.commit(plan);
  CHECK(sim.batcher.pages().cached == 0);
  const RequestId again = sim.submit(request(1, 20, 5));
  sim.run_all();
  CHECK(sim.requests.at(again).report.cached_tokens == 0);
}

TEST_CASE("an id that is in use is not added twice") {
  Batcher batcher(small());
  BatchRequest r = request(1, 4, 5);
  r.id = 7;
  batcher.add(r, 0);
  batcher.add(r, 0);
  CHECK(batcher.waiting() == 1);
  CHECK(batcher.check_invariants().ok());
}

TEST_CASE("a report counts what happened on the given clock") {
  Batcher batcher(small());
  BatchRequest r = request(1, 10, 3);
  r.id = 1;
  batcher.add(r, 10);
  CHECK(batcher.report(1, 11).queued_seconds == 0);  // not come yet
  Plan plan = batcher.plan({.max_tokens = 6}, 12);
  batcher.commit(plan, {}, 15);
  plan = batcher.plan({}, 16);
  const std::vector<DrawOutcome> one = {{5, true, false}};
  batcher.commit(plan, one, 20);
  RequestReport report = batcher.report(1, 21);
  CHECK(report.prompt_tokens == 10);
  CHECK(report.generated_tokens == 1);
  CHECK(report.queued_seconds == 2);
  CHECK(report.prefill_seconds == 8);
  CHECK(report.first_token_seconds == 10);
  CHECK(report.decode_seconds == 1);
  plan = batcher.plan({}, 22);
  const std::vector<DrawOutcome> end = {{0, false, true}};
  batcher.commit(plan, end, 30);
  CHECK_FALSE(batcher.has_request(1));
  report = batcher.report(1, 99);  // until the next plan, as of its end
  CHECK(report.generated_tokens == 1);
  CHECK(report.decode_seconds == 10);
  batcher.plan({}, 100);
  CHECK(batcher.report(1, 100).prompt_tokens == 0);
}

}  // namespace quire::test
