#include "batching/simulation.h"

#include "catch.h"
#include "emulated.h"

namespace quire::test {
namespace {

struct Mix {
  BatcherOptions options;
  int most_prompt = 0;
  int most_tokens = 0;
};

int pick(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

Mix make_mix(std::mt19937_64& random) {
  const int page_sizes[] = {1, 2, 3, 4, 8, 16, 64};
  const std::vector<int> windows[] = {{0}, {0}, {0, 0}, {0, 5}, {9, 0}, {4}, {1}, {0, 1}, {16, 3}};
  Mix m;
  m.options.page_size = page_sizes[random() % 7];
  m.options.windows = windows[random() % 9];
  m.options.context = pick(random, 12, 60);
  const int whole = (m.options.context + m.options.page_size - 1) / m.options.page_size;
  // From a pool that holds one sequence to one that holds everything.
  const int pages = std::max(1, whole * pick(random, 2, 12) / 2);
  m.options.page_counts.assign(m.options.windows.size(), pages);
  m.options.max_running = pick(random, 1, 12);
  m.options.max_step_tokens = m.options.max_running + pick(random, 1, 40);
  // A group with a window may have fewer pages than the others, down to less than a request needs.
  for (std::size_t g = 0; g < m.options.windows.size(); ++g) {
    if (m.options.windows[g] == 0 || random() % 2 == 0) continue;
    m.options.page_counts[g] = pick(random, std::min(pages, 2), pages);
  }
  m.options.max_bypasses = pick(random, 0, 3);
  m.options.prefix_cache = random() % 8 != 0;
  m.options.cache_namespace = "model";
  return m;
}

BatchRequest random_request(Simulation& sim, const Mix& m, std::vector<std::vector<int>>& texts) {
  std::mt19937_64& random = sim.random;
  BatchRequest r;
  const int context = m.options.context;
  // Often the start of an earlier text, cut anywhere, as the next turn of a chat or a new question
  // to the same document.
  if (!texts.empty() && random() % 4 != 0) {
    const auto& text = texts[random() % texts.size()];
    r.prompt.assign(text.begin(), text.begin() + pick(random, 1, static_cast<int>(text.size())));
  }
  const auto more = some_tokens(random(), pick(random, 0, context / 2));
  r.prompt.insert(r.prompt.end(), more.begin(), more.end());
  if (r.prompt.empty()) r.prompt.push_back(1);
  if (static_cast<int>(r.prompt.size()) > context - 1)
    r.prompt.resize(static_cast<std::size_t>(context - 1));
  r.prompt_logits = random() % 10 == 0;
  r.max_tokens = pick(random, r.prompt_logits ? 0 : 1,
                      std::min(20, context - static_cast<int>(r.prompt.size())));
  r.n = random() % 4 == 0 ? pick(random, 2, 4) : 1;
  r.priority = random() % 3 == 0 ? pick(random, -1, 2) : 0;
  r.tenant = random() % 4 == 0 ? "other" : "";
  r.rope_choice = random() % 8 == 0 ? 1 : 0;
  r.use_prefix_cache = random() % 8 != 0;
  return r;
}

// Returns how many passes were planned ahead.
int run_one(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Mix m = make_mix(random);
  Simulation sim(m.options, seed);
  std::vector<std::vector<int>> texts = {some_tokens(1, 30), some_tokens(2, 50)};
  std::vector<RequestId> ids;
  int to_submit = 25;
  const bool disturb = seed % 3 != 0;
  int planned_ahead = 0;
  while (to_submit > 0 || sim.live() > 0) {
    for (int i = pick(sim.random, 0, 3); i > 0 && to_submit > 0; --i) {
      BatchRequest r = random_request(sim, m, texts);
      --to_submit;
      if (!sim.batcher.can_ever_fit(r).ok()) continue;
      ids.push_back(sim.submit(r));
    }
    const auto maybe_cancel = [&] {
      if (!disturb || ids.empty() || sim.random() % 25 != 0) return;
      sim.cancel(ids[sim.random() % ids.size()]);
      sim.check();
    };
    PlanLimits limits;
    if (sim.random() % 2) limits.max_tokens = pick(sim.random, 1, m.options.max_step_tokens);
    if (sim.random() % 2) limits.max_chunk = pick(sim.random, 1, 16);
    maybe_cancel();
    Plan plan = sim.plan(limits);
    while (!plan.empty()) {
      maybe_cancel();
      Plan ahead = sim.random() % 4 != 0 ? sim.plan_ahead() : Plan();
      planned_ahead += ahead.empty() ? 0 : 1;
      maybe_cancel();
      if (disturb && sim.random() % 12 == 0) {
        sim.fail(plan);  // and with it what was planned ahead
        break;
      }
      if (disturb && !ahead.empty() && sim.random() % 12 == 0) {
        sim.fail(ahead);
        ahead = Plan();
      }
      sim.commit(plan);
      plan = std::move(ahead);
    }
    if (sim.random() % 60 == 0) sim.batcher.clear_cache();
    if (sim.random() % 5 == 0 && !ids.empty()) {
      const auto& done = sim.requests.at(ids[sim.random() % ids.size()]);
      if (done.done && !done.answers[0].empty()) {
        std::vector<int> text = done.spec.prompt;
        text.insert(text.end(), done.answers[0].begin(), done.answers[0].end());
        texts.push_back(std::move(text));
      }
    }
    expect(sim.steps < 20000, "too many steps");
  }
  sim.run_all();
  sim.batcher.clear_cache();
  sim.check();
  expect(sim.batcher.pages().free == sim.batcher.pages().total, "pages stay behind");
  return planned_ahead;
}

}  // namespace

TEST_CASE("every answer is the reference's under load, faults and cancellation") {
  const int runs = testing::kEmulated ? 100 : 600;
  int planned_ahead = 0;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t seed = 1000 + static_cast<std::uint64_t>(i);
    INFO("seed " << seed);
    REQUIRE_NOTHROW(planned_ahead += run_one(seed));
  }
  CHECK(planned_ahead > (testing::kEmulated ? 150 : 1000));
}

}  // namespace quire::test
