#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulated.h"
#include "engine/runs.h"

namespace quire::testing {

// Requests that end in different ways, submitted to an engine in which something goes wrong, and
// what must hold for each whatever that was: one last event for each choice, nothing after it, and
// an answer that came to its end is the right one.
class Workload {
 public:
  static EngineOptions options() {
    EngineOptions options = small();
    options.context = 256;
    options.scheduling.max_step_tokens = 48;
    return options;
  }
  static Engine open(const EngineOptions& with = options()) { return tiny(with); }

  Workload() {
    Request text = sampled({}, 1, 12);
    text.prompt = "The quick brown fox";
    text.stop = {"zz", "q"};
    Request choices = sampled({9, 8, 7}, 2, 8);
    choices.n = 3;
    std::vector<std::int32_t> prompt = long_prompt("llama");
    if (kEmulated) prompt.resize(40);
    Request scored = sampled(std::move(prompt), 3, 4);
    scored.prompt_logprobs = 2;
    Request prompt_only = scored;
    prompt_only.max_tokens = 0;
    items_ = {{text}, {choices}, {scored}, {prompt_only}, {sampled({5, 6, 7, 8}, 4, 30)}};
    Engine engine = open();
    for (Item& item : items_) {
      for (const Answer& answer : generate(engine, item.request).choices) {
        item.expected.push_back(outcome_of(answer));
      }
    }
  }

  void prepare() {
    events_.clear();
    events_.reserve(1000);
    statuses_.clear();
    statuses_.reserve(1000);
    for (Item& item : items_) {
      item.next = item.request;
      item.id = 0;
    }
    cancelled_ = false;
  }

  // What may go wrong. Needs no memory of its own.
  void run_beginning(Engine& engine, int steps, const StepLimits& limits = {.tokens = 24}) {
    for (Item& item : items_) {
      auto id = engine.submit(std::move(item.next));
      if (id.ok()) item.id = *id;
      if (!id.ok()) statuses_.push_back(id.status().code());
    }
    for (int i = 0; i < steps; ++i) {
      auto report = engine.step(limits);
      if (!report.ok()) statuses_.push_back(report.status().code());
      if (i == 4 && items_.back().id != 0) cancelled_ = engine.cancel(items_.back().id);
      take(engine);
    }
  }

  // From here on nothing does.
  void run_to_the_end(Engine& engine, const StepLimits& limits = {}) {
    for (int steps = 0; engine.has_work(); ++steps) {
      REQUIRE(steps < 1000);
      auto report = engine.step(limits);
      INFO(report.status().message());
      REQUIRE(report.ok());
      take(engine);
    }
    REQUIRE(engine.step().ok());
    REQUIRE(engine.events().empty());
    check_events();
    const EngineStats stats = engine.stats();
    REQUIRE(stats.pages_in_use == 0);
    REQUIRE(stats.pages_free + stats.pages_cached == stats.pages_total);
    REQUIRE(stats.running == 0);
    REQUIRE(stats.waiting == 0);
    // The next request is answered as if nothing had been.
    const Item& item = items_[1];
    const Generation next = generate(engine, item.request);
    for (std::size_t i = 0; i < next.choices.size(); ++i) {
      REQUIRE(outcome_of(next.choices[i]) == item.expected[i]);
    }
  }

  const std::vector<StatusCode>& statuses() const { return statuses_; }
  int whole() const { return whole_; }  // answers of the last run that came to their end

 private:
  struct Item {
    Request request;
    std::vector<Outcome> expected = {};
    Request next = {};
    RequestId id = 0;  // 0: refused
  };

  void take(Engine& engine) {
    for (TokenEvent& event : engine.events()) events_.push_back(std::move(event));
  }

  void check_events() {
    whole_ = 0;
    Collector collector;
    std::map<RequestId, int> reports;
    for (TokenEvent& event : events_) {
      reports[event.request] += event.report.has_value();
      if (event.finish_reason == FinishReason::error) REQUIRE_FALSE(event.status.ok());
    }
    collector.add(std::move(events_));
    events_.clear();
    for (const Item& item : items_) {
      if (item.id == 0) {
        REQUIRE_FALSE(collector.saw(item.id));
        continue;
      }
      const bool cancelled = cancelled_ && item.id == items_.back().id;
      REQUIRE(reports[item.id] == (cancelled ? 0 : 1));
      for (int choice = 0; choice < item.request.n; ++choice) {
        REQUIRE(collector.ended(item.id, choice) == !cancelled);
        const Outcome got = collector.outcome(item.id, choice);
        const Outcome& expected = item.expected[static_cast<std::size_t>(choice)];
        if (cancelled || got.reason == FinishReason::error) {
          REQUIRE(got.tokens.size() <= expected.tokens.size());
          REQUIRE(std::equal(got.tokens.begin(), got.tokens.end(), expected.tokens.begin()));
        } else {
          REQUIRE(got == expected);
          ++whole_;
        }
      }
    }
  }

  std::vector<Item> items_;
  std::vector<TokenEvent> events_;
  std::vector<StatusCode> statuses_;
  bool cancelled_ = false;
  int whole_ = 0;
};

}  // namespace quire::testing
