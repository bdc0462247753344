#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/engine_impl.h"

namespace quire {

// Moves what other threads left in the queue to this one: new requests, then cancellations.
void Engine::Impl::take_in() {
  auto drained = queue.drain();
  for (auto& [id, pending] : drained.requests) {
    const double submitted = pending.live->submitted;
    live.emplace(id, std::move(pending.live));
    batcher->add(std::move(pending.batch), submitted);
  }
  for (RequestId id : drained.cancelled) {
    batcher->cancel(id);
    forget(id);
  }
  queue.set_waiting(batcher->waiting());
}

// Drops a request; one that a pass in flight reads is kept until that pass has ended.
void Engine::Impl::forget(RequestId id) {
  auto found = live.find(id);
  if (found == live.end()) return;
  if (pass) retired.push_back(std::move(found->second));
  live.erase(found);
}

// Plans the next pass and gives it to the decoder; false if there is nothing to compute.
bool Engine::Impl::begin_pass(const StepLimits& limits) {
  const double budget = std::chrono::duration<double>(limits.time).count();
  PlanLimits plan_limits;
  plan_limits.max_tokens = limits.tokens;
  plan_limits.max_chunk = costs.chunk(budget);
  if (budget > 0) {
    // Also with no answers to stall: operations over many rows would overrun the budget.
    const int cap = batcher->running() + plan_limits.max_chunk;
    plan_limits.max_tokens = limits.tokens > 0 ? std::min(limits.tokens, cap) : cap;
  }
  PassInFlight next;
  next.plan = batcher->plan(plan_limits, now());
  if (next.plan.empty()) return false;

  const double started = now();
  for (const PlanSlice& slice : next.plan.slices) {
    auto found = live.find(slice.request);
    if (found != live.end() && !found->second->first_pass) found->second->first_pass = started;
  }

  // Draws in order of their rows: answers' tokens, and log-probabilities of prompt tokens.
  struct Ordered {
    model::RowDraw draw;
    PassInFlight::DrawPurpose purpose;
  };
  std::vector<Ordered> ordered;
  for (std::size_t i = 0; i < next.plan.draws.size(); ++i) {
    const PlanDraw& draw = next.plan.draws[i];
    const AcceptedRequest& owner = *live.at(draw.request);
    ordered.push_back({{next.plan.logit_rows[draw.logit_row], owner.draw(draw.choice)},
                       {owner.id, false, static_cast<int>(i)}});
  }
  for (std::int32_t row : next.plan.prompt_logit_rows) {
    for (const PlanSlice& slice : next.plan.slices) {
      if (row < slice.first_row || row >= slice.first_row + slice.tokens) continue;
      const AcceptedRequest& owner = *live.at(slice.request);
      const int position = slice.first_position + row - slice.first_row + 1;
      if (position < static_cast<int>(owner.prompt_results.size())) {
        ordered.push_back({{row, owner.prompt_draw(position)}, {owner.id, true, position}});
      }
      break;
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Ordered& a, const Ordered& b) { return a.draw.row < b.draw.row; });
  std::vector<model::RowDraw> draws;
  for (const Ordered& entry : ordered) {
    draws.push_back(entry.draw);
    next.purposes.push_back(entry.purpose);
  }
  pass.emplace(std::move(next));
  pass->begin_status = decoder->begin(pass->plan, std::move(draws));
  return true;
}

// Runs operations until the pass is done, fails, or the time is over.
Status Engine::Impl::run_pass(const StepLimits& limits, double started, bool& cut) {
  if (!pass->begin_status.ok()) return pass->begin_status;
  const double limit = std::chrono::duration<double>(limits.time).count();
  double before = now();
  while (!decoder->done()) {
    Status status = decoder->run_operation();
    const double after = now();
    pass->seconds += after - before;
    before = after;
    if (!status.ok()) return status;
    if (limit > 0 && after - started >= limit && !decoder->done()) {
      cut = true;
      return {};
    }
  }
  return {};
}

// The pass is computed: tokens join their answers, pages are published, events are made.
void Engine::Impl::commit_pass(StepReport& report) {
  std::vector<DrawResult> results = decoder->take_results();
  std::vector<DrawOutcome> outcomes(pass->plan.draws.size(), {0, false, true});  // if cancelled
  std::vector<RequestId> failed;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const PassInFlight::DrawPurpose& purpose = pass->purposes[i];
    auto found = live.find(purpose.request);
    if (found == live.end()) continue;
    AcceptedRequest& request = *found->second;
    if (!purpose.of_prompt) {
      const auto draw = static_cast<std::size_t>(purpose.index);
      outcomes[draw] = accept_draw(request, pass->plan.draws[draw].choice, results[i]);
    } else if (results[i].status.ok()) {
      accept_prompt_result(request, purpose.index, results[i]);
    } else {
      end_request_with_error(request, results[i].status);
      failed.push_back(purpose.request);
    }
  }
  // Requests of no new token end with their last prompt row.
  for (const PlanSlice& slice : pass->plan.slices) {
    auto found = live.find(slice.request);
    if (found == live.end()) continue;
    found->second->failures = 0;
    const auto end = static_cast<std::size_t>(slice.first_position + slice.tokens);
    const bool prompt_only = found->second->max_tokens == 0;
    if (prompt_only && end >= found->second->prompt.size()) finish_without_tokens(*found->second);
  }
  batcher->commit(pass->plan, outcomes, now());
  for (RequestId id : failed) batcher->cancel(id);
  costs.add_pass(pass->plan.decode_tokens, pass->plan.prefill_tokens, pass->seconds);
  report.decode_tokens += pass->plan.decode_tokens;
  report.prefill_tokens += pass->plan.prefill_tokens;
  report.sequences = static_cast<int>(pass->plan.slices.size());
  pass.reset();
  retired.clear();
  for (auto it = live.begin(); it != live.end();) {
    it = it->second->finished() ? live.erase(it) : std::next(it);
  }
}

// Nothing of the pass stays. Its requests are planned again if memory may come back, else they end.
Status Engine::Impl::fail_pass(const Status& why) {
  decoder->abandon();
  batcher->fail(pass->plan);
  const Plan plan = std::move(pass->plan);
  pass.reset();
  retired.clear();
  std::set<RequestId> requests;
  for (const PlanSlice& slice : plan.slices) requests.insert(slice.request);
  for (RequestId id : requests) {
    auto found = live.find(id);
    if (found == live.end()) continue;
    if (why.code() == StatusCode::out_of_memory && ++found->second->failures < 3) continue;
    end_request_with_error(*found->second, why);
    batcher->cancel(id);
    live.erase(found);
  }
  return why;
}

// One pass, or what the time allows of it; `idle` if there is nothing to compute.
Status Engine::Impl::advance(const StepLimits& limits, double started, StepReport& report,
                             bool& idle) {
  if (!pass && !begin_pass(limits)) {
    idle = true;
    return {};
  }
  if (Status status = run_pass(limits, started, report.cut); !status.ok()) return status;
  if (report.cut) return {};
  take_in();  // what was cancelled meanwhile delivers nothing
  commit_pass(report);
  take_in();
  return {};
}

Result<StepReport> Engine::Impl::step(const StepLimits& limits) {
  if (limits.time.count() < 0 || limits.tokens < 0) {
    return error(StatusCode::invalid_argument,
                 "step: time {} ns and {} tokens, wanted none below 0", limits.time.count(),
                 limits.tokens);
  }
  StepReport report;
  const double started = now();
  const double limit = std::chrono::duration<double>(limits.time).count();
  take_in();
  Status status;
  bool idle = false;
  do {
    // An exception must not leave the pass open: the next step would commit it.
    status = guarded("step", [&] { return advance(limits, started, report, idle); });
    if (!status.ok() && pass) status = fail_pass(status);
  } while (status.ok() && !idle && !report.cut && limit > 0 && now() - started < limit);

  device->rest();
  queue.set_waiting(batcher->waiting());
  const PageCounts pages = batcher->pages();
  report.pages_free = pages.free;
  report.pages_in_use = pages.in_use;
  report.pages_cached = pages.cached;
  report.seconds = now() - started;
  if (!status.ok()) return status;
  return report;
}

std::vector<TokenEvent> Engine::Impl::take_events(std::optional<RequestId> only) {
  std::vector<TokenEvent> events, kept;
  events.reserve(outbox.size());
  kept.reserve(outbox.size());
  std::lock_guard lock(live_mutex);
  for (TokenEvent& event : outbox) {
    if (live_ids.count(event.request) == 0) continue;  // cancelled since
    if (only && event.request != *only) {
      kept.push_back(std::move(event));
      continue;
    }
    if (event.report) live_ids.erase(event.request);  // the last one of its request
    events.push_back(std::move(event));
  }
  outbox.swap(kept);
  return events;
}

}  // namespace quire
