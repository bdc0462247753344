// Memory that runs out inside the batcher: every request that it still has gets the reference's
// answer, and the books are right after every call.
#include <map>
#include <new>

#include "batching/simulation.h"
#include "catch.h"
#include "emulated.h"
#include "failing_new.h"

namespace quire::test {
namespace {

constexpr int kWords = 40;
constexpr long kNever = 1L << 40;

BatcherOptions small(std::vector<int> windows) {
  BatcherOptions options;
  options.page_size = 4;
  options.page_counts.assign(windows.size(), 20);
  options.windows = std::move(windows);
  options.context = 60;
  options.max_running = 6;
  options.max_step_tokens = 24;
  options.cache_namespace = "model";
  return options;
}

// Calls of the batcher of which the n-th allocation fails; the books must be right whatever
// happened.
class FaultyRun {
 public:
  FaultyRun(const BatcherOptions& options, std::uint64_t seed)
      : options_(options),
        batcher_(options),
        random_(seed),
        model_(options.page_size, options.page_counts, options.windows) {}

  void run(long nth, FailingNew::Mode mode) {
    nth_ = nth;
    mode_ = mode;
    for (int i = 0; i < 5; ++i) {
      BatchRequest request = make_request(some_tokens(i / 2, 9 + 3 * i, kWords), 6);
      request.id = static_cast<RequestId>(100 * round_ + i + 1);
      request.n = i == 1 || i == 4 ? 3 : 1;
      request.prompt_logits = i == 3;
      answers_[request.id].resize(static_cast<std::size_t>(request.n));
      specs_[request.id] = request;
      const RequestId id = request.id;
      guarded_call([&] { batcher_.add(std::move(request), 1); });
      if (!batcher_.has_request(id)) specs_.erase(id);
    }
    ++round_;
    for (int steps = 0; batcher_.waiting() + batcher_.running() > 0; ++steps) {
      expect(steps < 400, "too many steps");
      if (steps == 3 && !specs_.empty()) {
        cancelled_ = specs_.begin()->first;
        guarded_call([&] { batcher_.cancel(cancelled_); });
      }
      Plan plan;
      guarded_call([&] { plan = batcher_.plan({.max_tokens = 13}, steps); });
      if (!plan.empty()) commit(plan, steps);
    }
    check_answers();
  }
  bool fired() const { return fired_; }

 private:
  template <class Call>
  void guarded_call(Call call) {
    {
      FailingNew failing(nth_, mode_);
      try {
        call();
      } catch (const std::bad_alloc&) {
      }
      nth_ = failing.left();
      // One call that fails is enough for a run: those after it see what it has left.
      if (failing.fired()) fired_ = true, nth_ = kNever;
    }
    const Status status = batcher_.check_invariants();
    expect(status.ok(), status.message());
    const PageCounts pages = batcher_.pages();
    expect(pages.free + pages.in_use + pages.cached == pages.total, "page counts do not add up");
  }

  void commit(const Plan& plan, int now) {
    const auto states = model_.run(plan, random_);
    std::vector<DrawOutcome> outcomes;
    for (const PlanDraw& draw : plan.draws) {
      const auto row = plan.logit_rows[static_cast<std::size_t>(draw.logit_row)];
      DrawOutcome outcome;
      outcome.token = draw_token(states[static_cast<std::size_t>(row)], draw.choice, kWords);
      auto& answer = answers_[draw.request][static_cast<std::size_t>(draw.choice)];
      answer.push_back(outcome.token);
      outcome.append = outcome.token != kEndToken;
      outcome.finish =
          !outcome.append || static_cast<int>(answer.size()) == specs_[draw.request].max_tokens;
      outcomes.push_back(outcome);
    }
    guarded_call([&] { batcher_.commit(plan, outcomes, now); });
  }

  // What was drawn of a request that was dropped is the beginning of its answer. None is dropped
  // but one whose answers part just then.
  void check_answers() {
    for (const auto& [id, spec] : specs_) {
      for (int choice = 0; choice < spec.n; ++choice) {
        const auto& got = answers_[id][static_cast<std::size_t>(choice)];
        const auto expected = expected_answer(spec.prompt, spec.max_tokens, choice,
                                              options_.windows, spec.rope_choice, kWords);
        expect(
            got.size() <= expected.size() && std::equal(got.begin(), got.end(), expected.begin()),
            "another answer than the reference's");
        const bool whole = got.size() == expected.size();
        expect(whole || spec.n > 1 || id == cancelled_, "an answer was lost");
        whole_ += whole;
      }
    }
    expect(batcher_.pages().in_use == 0, "idle, but pages are in use");
    specs_.clear();
    answers_.clear();
  }

  BatcherOptions options_;
  Batcher batcher_;
  std::mt19937_64 random_;
  ScriptedModel model_;
  std::map<RequestId, BatchRequest> specs_;
  std::map<RequestId, std::vector<std::vector<std::int32_t>>> answers_;
  RequestId cancelled_ = 0;
  long nth_ = 0;
  FailingNew::Mode mode_ = FailingNew::Mode::once;
  int round_ = 0;
  bool fired_ = false;

 public:
  int whole_ = 0;  // answers that came to their end
};

}  // namespace

TEST_CASE("memory that runs out in the batcher loses no page and changes no answer", "[fault]") {
  for (const std::vector<int>& windows : {std::vector<int>{0}, {0, 5}}) {
    for (auto mode : {FailingNew::Mode::once, FailingNew::Mode::always}) {
      int whole = 0, runs = 0;
      bool fired = true;
      for (long nth = 1; fired; nth += testing::kEmulated ? 4 : 1, ++runs) {
        INFO(windows.size() << " groups, allocation " << nth << " fails");
        FaultyRun run(small(windows), 1);
        REQUIRE_NOTHROW(run.run(nth, mode));
        fired = run.fired();
        run.run(kNever, mode);  // with what the failure has left
        whole += run.whole_;
      }
      CHECK(runs > 20);
      CHECK(whole > runs * 15);  // of 16: nine, without the cancelled one, in each of two runs
    }
  }
}

}  // namespace quire::test
