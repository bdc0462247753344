#pragma once

#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "batching/batcher.h"
#include "batching/scripted_model.h"

namespace quire::test {

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// A batcher and a scripted model, stepped with a virtual clock. Checks the invariants after every
// step and that each answer is the reference's; throws on the first difference.
class Simulation {
 public:
  struct Tracked {
    BatchRequest spec;
    std::vector<std::vector<std::int32_t>> answers;  // [choice]
    std::vector<int> ended;                          // [choice] times
    std::set<int> prompt_rows;                       // positions whose logits were delivered
    RequestReport report;
    bool done = false;
    bool cancelled = false;
  };

  Simulation(BatcherOptions options, std::uint64_t seed, int vocabulary = 40)
      : options_(options),
        batcher(options),
        random(seed),
        vocabulary_(vocabulary),
        model_(options.page_size, options.page_counts, options.windows) {}

  RequestId submit(BatchRequest spec) {
    spec.id = ++last_id_;
    expect(batcher.can_ever_fit(spec).ok(), "submitted what can never fit");
    Tracked tracked;
    tracked.answers.resize(static_cast<std::size_t>(spec.n));
    tracked.ended.assign(static_cast<std::size_t>(spec.n), 0);
    tracked.spec = spec;
    requests.emplace(spec.id, std::move(tracked));
    batcher.add(std::move(spec), now);
    ++live_;
    return last_id_;
  }

  bool cancel(RequestId id) {
    const bool was_live = batcher.cancel(id);
    Tracked& r = requests.at(id);
    expect(was_live == (!r.done && !r.cancelled), "cancel is wrong about being live");
    if (was_live) r.cancelled = true, --live_;
    expect(!batcher.has_request(id), "a cancelled request is there");
    return was_live;
  }

  Plan plan(PlanLimits limits = {}) {
    now += 1;
    Plan p = batcher.plan(limits, now);
    check();
    expect(!p.empty() || live_ == 0, "nothing is planned for a live request");
    check_shape(p, limits);
    return p;
  }

  // A pass on top of one that was planned and not yet committed; often there is none.
  Plan plan_ahead() {
    Plan p = batcher.plan_ahead(now);
    check();
    if (p.empty()) return p;
    expect(p.token_draws.size() == p.tokens.size(), "rows without a draw to go on from");
    expect(p.copies.empty() && p.prefill_tokens == 0, "more than answers that go on");
    check_shape(p, {});
    return p;
  }

  void commit(Plan p) {
    now += 1;
    for (std::size_t row = 0; row < p.token_draws.size(); ++row) {
      p.tokens[row] = drawn_.at(static_cast<std::size_t>(p.token_draws[row]));
    }
    const auto states = model_.run(p, random);
    const bool ahead = !p.token_draws.empty();
    drawn_.clear();
    std::vector<DrawOutcome> outcomes;
    for (const PlanDraw& draw : p.draws) {
      const std::size_t row =
          static_cast<std::size_t>(p.logit_rows.at(static_cast<std::size_t>(draw.logit_row)));
      outcomes.push_back(outcome(draw, states.at(row), ahead));
      drawn_.push_back(outcomes.back().token);
    }
    record_prompt_rows(p);
    batcher.commit(p, outcomes, now);
    check();
    for (auto& [id, r] : requests) {
      if (r.done || r.cancelled) continue;
      if (!batcher.has_request(id)) finish(id, &r);
    }
    ++steps;
    rows += static_cast<int>(p.tokens.size());
  }

  // The pass wrote something and failed.
  void fail(const Plan& p) {
    if (random() % 2) model_.run(p, random);
    batcher.fail(p);
    check();
  }

  bool step(PlanLimits limits = {}) {
    const Plan p = plan(limits);
    if (p.empty()) return false;
    commit(p);
    return true;
  }

  void run_all(PlanLimits limits = {}, int most_steps = 100000) {
    while (live_ > 0) {
      expect(most_steps-- > 0, "too many steps");
      step(limits);
    }
    expect(batcher.waiting() == 0 && batcher.running() == 0, "idle, but something waits or runs");
    expect(batcher.pages().in_use == 0, "idle, but pages are in use");
  }

  void check() {
    const Status status = batcher.check_invariants();
    expect(status.ok(), status.message());
    const PageCounts pages = batcher.pages();
    expect(pages.free + pages.in_use + pages.cached == pages.total, "page counts do not add up");
    const auto& counts = options_.page_counts;
    expect(pages.total == std::accumulate(counts.begin(), counts.end(), 0), "pages were lost");
  }

  int live() const { return live_; }

 private:
  BatcherOptions options_;

 public:
  Batcher batcher;
  std::map<RequestId, Tracked> requests;
  std::mt19937_64 random;
  double now = 0;
  int steps = 0;
  int rows = 0;

 private:
  DrawOutcome outcome(const PlanDraw& draw, std::uint64_t state, bool ahead) {
    Tracked& r = requests.at(draw.request);
    DrawOutcome result;
    result.token = draw_token(state, draw.choice, vocabulary_);
    if (r.cancelled) return result;
    if (ahead && r.ended.at(static_cast<std::size_t>(draw.choice)) > 0) return result;
    auto& answer = r.answers.at(static_cast<std::size_t>(draw.choice));
    int& ended = r.ended.at(static_cast<std::size_t>(draw.choice));
    expect(ended == 0, "a draw for a choice that has ended");
    answer.push_back(result.token);
    result.append = result.token != kEndToken;
    result.finish = !result.append || static_cast<int>(answer.size()) == r.spec.max_tokens;
    ended += result.finish ? 1 : 0;
    return result;
  }

  void record_prompt_rows(const Plan& p) {
    for (int row : p.prompt_logit_rows) {
      for (const PlanSlice& slice : p.slices) {
        if (row < slice.first_row || row >= slice.first_row + slice.tokens) continue;
        if (requests.at(slice.request).cancelled) continue;
        expect(requests.at(slice.request)
                   .prompt_rows.insert(p.positions[static_cast<std::size_t>(row)])
                   .second,
               "logits of a prompt row were delivered twice");
      }
    }
  }

  void check_shape(const Plan& p, const PlanLimits& limits) {
    std::size_t row = 0, next_page = 0;
    int decodes = 0;
    std::set<std::uint64_t> seen;
    for (const PlanSlice& s : p.slices) {
      expect(s.tokens >= 1, "a slice without tokens");
      expect(static_cast<std::size_t>(s.first_row) == row, "slices are not in the order of rows");
      expect(seen.insert(s.sequence).second, "a sequence twice in one pass");
      expect(!s.decode || s.tokens == 1, "a decode of several tokens");
      decodes += s.decode ? 1 : 0;
      const std::size_t pages = static_cast<std::size_t>(
          (s.first_position + s.tokens + options_.page_size - 1) / options_.page_size);
      expect(s.page_count == static_cast<int>(pages), "a page table of another size");
      expect(s.first_page == next_page, "page tables are not in the order of slices");
      next_page += pages * options_.windows.size();
      row += static_cast<std::size_t>(s.tokens);
    }
    expect(next_page == p.pages.size(), "page ids of no slice");
    expect(row == p.tokens.size() && row == p.positions.size() && row == p.rope_choices.size(),
           "row arrays of different sizes");
    expect(decodes == p.decode_tokens && decodes + p.prefill_tokens == static_cast<int>(row),
           "decode and prefill tokens do not add up");
    std::set<std::pair<int, PageId>> sources, targets;
    for (const PageCopy& c : p.copies) sources.emplace(c.group, c.from);
    for (const PageCopy& c : p.copies) {
      expect(!sources.contains({c.group, c.to}), "the order of copies matters");
      expect(targets.emplace(c.group, c.to).second, "two copies into one page");
    }
    const int most = limits.max_tokens > 0 ? std::min(limits.max_tokens, options_.max_step_tokens)
                                           : options_.max_step_tokens;
    expect(static_cast<int>(row) <= most, "more tokens than the pass may have");
    if (decodes > 0 && limits.max_chunk > 0) {
      expect(p.prefill_tokens <= limits.max_chunk, "a longer chunk than allowed");
    }
    expect(std::is_sorted(p.logit_rows.begin(), p.logit_rows.end()), "logit rows not ascending");
  }

  void finish(RequestId id, Tracked* r) {
    r->done = true;
    --live_;
    r->report = batcher.report(id, now);
    int generated = 0;
    for (int c = 0; c < r->spec.n; ++c) {
      const auto& answer = r->answers[static_cast<std::size_t>(c)];
      const auto expected = expected_answer(r->spec.prompt, r->spec.max_tokens, c, options_.windows,
                                            r->spec.rope_choice, vocabulary_);
      expect(answer == expected, "another answer than the reference's");
      expect(r->ended[static_cast<std::size_t>(c)] == (r->spec.max_tokens > 0 ? 1 : 0),
             "a choice did not end exactly once");
      generated +=
          static_cast<int>(answer.size()) - (!answer.empty() && answer.back() == kEndToken ? 1 : 0);
    }
    expect(r->report.generated_tokens == generated, "generated tokens are miscounted");
    expect(r->report.prompt_tokens == static_cast<int>(r->spec.prompt.size()),
           "prompt tokens are miscounted");
    expect(r->report.cached_tokens < r->report.prompt_tokens, "no prompt token was computed");
    if (r->spec.prompt_logits) {
      expect(r->prompt_rows.size() + 1 == r->spec.prompt.size(), "prompt logits are missing");
    }
  }

  int vocabulary_;
  ScriptedModel model_;
  std::vector<std::int32_t> drawn_;  // by the pass committed last
  RequestId last_id_ = 0;
  int live_ = 0;
};

// `count` tokens that depend on `seed` only; never the end token.
inline std::vector<std::int32_t> some_tokens(std::uint64_t seed, int count, int vocabulary = 40) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<std::int32_t>(1 + mix(mix(seed, 5), static_cast<std::uint64_t>(i)) %
                                          static_cast<std::uint64_t>(vocabulary - 1)));
  }
  return tokens;
}

inline BatchRequest make_request(std::vector<std::int32_t> prompt, int max_tokens) {
  BatchRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

constexpr int kManyWords = 1000003;  // so many tokens that no answer draws the end

inline BatchRequest request_of_text(std::uint64_t text, int prompt, int max_tokens,
                                    int priority = 0) {
  BatchRequest request = make_request(some_tokens(text, prompt, kManyWords), max_tokens);
  request.priority = priority;
  return request;
}

}  // namespace quire::test
