#include "batching/simulation.h"
#include "catch.h"
#include "paging/most_pages.h"

namespace quire::test {
namespace {

// All tokens, and a window of 8; pages of 4, passes of at most 16 tokens.
BatcherOptions windowed(int full_pages, int window_pages) {
  BatcherOptions o;
  o.page_size = 4;
  o.windows = {0, 8};
  o.page_counts = {full_pages, window_pages};
  o.context = 400;
  o.max_running = 6;
  o.max_step_tokens = 16;
  return o;
}

}  // namespace

TEST_CASE("most_pages is what the worst place of the first token takes") {
  for (int page_size : {1, 2, 3, 16}) {
    for (int tokens = 0; tokens < 60; ++tokens) {
      int most = 0;
      for (int first = 0; first < page_size && tokens > 0; ++first) {
        most = std::max(most, (first + tokens - 1) / page_size + 1);
      }
      CHECK(most_pages(static_cast<std::size_t>(tokens), static_cast<std::size_t>(page_size)) ==
            static_cast<std::size_t>(most));
    }
  }
}

TEST_CASE("a prompt of any length takes the pages of its window and of one pass") {
  // (7 + 16) tokens lie in at most 7 pages.
  Simulation sim(windowed(60, 7), 1, kManyWords);
  const RequestId id = sim.submit(request_of_text(1, 203, 10));
  int most = 0;
  while (sim.live() > 0) {
    const Plan plan = sim.plan();
    most = std::max(most, sim.batcher.pages(1).in_use);
    sim.commit(plan);
  }
  CHECK(most == 7);
  CHECK(sim.requests.at(id).report.preemptions == 0);

  const Status refused = Batcher(windowed(60, 6)).can_ever_fit(request_of_text(1, 203, 10));
  CHECK(refused.message() ==
        "prompt of 203 tokens and 1 x 10 to generate need 7 pages of 4 tokens, there are 6");
}

TEST_CASE("a long answer that gave way comes back though the window has few pages") {
  // An answer after a prompt of 2 tokens holds at most 3 pages of the window, two such answers more
  // than there are; the one that is computed again would hold 7 with passes of 16 tokens.
  BatcherOptions o = windowed(40, 5);
  o.prefix_cache = false;
  Simulation sim(o, 1, kManyWords);
  REQUIRE(sim.batcher.can_ever_fit(request_of_text(1, 2, 60)).ok());
  sim.submit(request_of_text(1, 2, 60));
  const RequestId second = sim.submit(request_of_text(2, 2, 60));
  REQUIRE_NOTHROW(sim.run_all());
  CHECK(sim.requests.at(second).report.preemptions > 0);
}

TEST_CASE("prompts that are short of window pages go on in shorter chunks") {
  // A prompt is admitted with 7 pages of the window. Answers that grow take some of those that it
  // gives back.
  BatcherOptions o = windowed(400, 14);
  o.prefix_cache = false;
  Simulation sim(o, 1, kManyWords);
  for (int i = 0; i < 3; ++i) sim.submit(request_of_text(static_cast<std::uint64_t>(i), 3, 90));
  sim.step();
  const RequestId prompt = sim.submit(request_of_text(7, 150, 4, 1));
  int shorter = 0;
  while (sim.live() > 0) {
    const Plan plan = sim.plan();
    for (const PlanSlice& slice : plan.slices) {
      const bool last = slice.first_position + slice.tokens == 150;
      const int others = static_cast<int>(plan.slices.size()) - 1;
      shorter += slice.request == prompt && !slice.decode && !last && slice.tokens + others < 16;
    }
    sim.commit(plan);
  }
  CHECK(shorter > 0);
  CHECK(sim.requests.at(prompt).report.preemptions == 0);
}

TEST_CASE("a failed pass gives back the window pages that a prompt took for it") {
  Simulation sim(windowed(60, 12), 1, kManyWords);
  sim.submit(request_of_text(1, 100, 4));
  for (int i = 0; i < 3; ++i) sim.step();
  const int before = sim.batcher.pages(1).in_use;
  const Plan plan = sim.plan();
  CHECK(sim.batcher.pages(1).in_use > before);
  sim.fail(plan);
  CHECK(sim.batcher.pages(1).in_use == before);
  REQUIRE_NOTHROW(sim.run_all());
}

TEST_CASE("visible tokens are what pages of a group are in use for") {
  Simulation sim(windowed(60, 12), 1, kManyWords);
  sim.submit(request_of_text(1, 30, 10));
  for (int i = 0; i < 4; ++i) sim.step();  // 16 and 14 tokens of the prompt, 2 answers
  CHECK(sim.batcher.visible_tokens(0) == 32);
  CHECK(sim.batcher.visible_tokens(1) == 7);
  sim.run_all();
  CHECK(sim.batcher.visible_tokens(0) == 0);
}

}  // namespace quire::test
