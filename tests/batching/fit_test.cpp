#include "batching/simulation.h"
#include "catch.h"

namespace quire::test {
namespace {

BatcherOptions base(int page_size, std::vector<int> windows) {
  BatcherOptions o;
  o.page_size = page_size;
  o.page_counts.assign(windows.size(), 1000);
  o.windows = std::move(windows);
  o.context = 100;
  o.max_running = 4;
  o.max_step_tokens = 100;
  return o;
}

// Most pages that one group uses while the request runs alone.
int pages_used(BatcherOptions o, const BatchRequest& r) {
  Simulation sim(o, 1, kManyWords);
  sim.submit(r);
  int most = 0;
  while (sim.live() > 0) {
    const Plan plan = sim.plan();
    most = std::max(most, sim.batcher.pages().in_use);
    sim.commit(plan);
  }
  return most;
}

}  // namespace

TEST_CASE("what fits is exactly what a request uses when alone") {
  for (int page_size : {1, 2, 4, 7}) {
    for (int window : {0, 1, 3, 8}) {
      for (int prompt : {1, 4, 6, 13}) {
        for (int max_tokens : {1, 2, 5, 20}) {
          for (int n : {1, 3}) {
            INFO("page " << page_size << " window " << window << " prompt " << prompt << " + "
                         << max_tokens << " x " << n);
            BatcherOptions o = base(page_size, {window});
            o.prefix_cache = false;
            BatchRequest r = make_request(some_tokens(1, prompt, kManyWords), max_tokens);
            r.n = n;
            o.page_counts = {pages_used(o, r)};
            CHECK(Batcher(o).can_ever_fit(r).ok());
            CHECK(pages_used(o, r) == o.page_counts[0]);
            --o.page_counts[0];
            CHECK(Batcher(o).can_ever_fit(r).code() == StatusCode::resource_exhausted);
          }
        }
      }
    }
  }
}

TEST_CASE("a refusal names both numbers") {
  BatcherOptions o = base(4, {0});
  Batcher batcher(o);
  Status s = batcher.can_ever_fit(make_request(some_tokens(1, 90), 11));
  CHECK(s.code() == StatusCode::resource_exhausted);
  CHECK(s.message() == "prompt of 90 tokens and 11 to generate, context is 100");
  CHECK(batcher.can_ever_fit(make_request(some_tokens(1, 90), 10)).ok());
  CHECK(batcher.can_ever_fit(make_request(some_tokens(1, 100), 0)).ok());
  CHECK_FALSE(batcher.can_ever_fit(make_request(some_tokens(1, 101), 0)).ok());

  BatchRequest wide = make_request(some_tokens(1, 5), 5);
  wide.n = 5;
  CHECK(batcher.can_ever_fit(wide).message() == "5 answers of one request, max_running is 4");

  o.page_counts = {4};
  s = Batcher(o).can_ever_fit(make_request(some_tokens(1, 12), 6));
  CHECK(s.message() ==
        "prompt of 12 tokens and 1 x 6 to generate need 5 pages of 4 tokens, there are 4");
  CHECK(Batcher(o).can_ever_fit(make_request(some_tokens(1, 12), 5)).ok());
}

TEST_CASE("requests that mean nothing are refused") {
  Batcher batcher(base(4, {0}));
  CHECK(batcher.can_ever_fit(make_request({}, 5)).code() == StatusCode::invalid_argument);
  CHECK(batcher.can_ever_fit(make_request({1}, -1)).code() == StatusCode::invalid_argument);
  BatchRequest none = make_request({1}, 1);
  none.n = 0;
  CHECK(batcher.can_ever_fit(none).code() == StatusCode::invalid_argument);
}

TEST_CASE("the largest numbers do not overflow") {
  BatcherOptions o = base(1, {0, 3});
  o.context = 2147483647;
  o.max_running = 2147483647;
  BatchRequest r = make_request({1}, 2147483646);
  r.n = 2147483647;
  CHECK(Batcher(o).can_ever_fit(r).code() == StatusCode::resource_exhausted);
}

}  // namespace quire::test
