#include <algorithm>

#include "base/error.h"
#include "engine/engine_impl.h"

namespace quire {

// Moves what other threads left to this one: new requests, then cancellations.
void Engine::Impl::take_in() noexcept {
  for (auto& entry : queue.drain()) start(std::move(entry.payload));
  for (RequestId id : ids.take_cancelled()) {
    batcher->cancel(id);
    forget(id);
  }
  queue.set_waiting(batcher->waiting());
}

// A request for which there is no memory ends here, as it had its place in the queue.
void Engine::Impl::start(PendingRequest pending) noexcept {
  const RequestId id = pending.live->id;
  if (!ids.contains(id)) return;
  const Status status = guarded("taking in a request", [&] {
    live.emplace(id, nullptr);
    batcher->add(std::move(pending.batch), pending.live->submitted);
    return Status();
  });
  if (status.ok()) {
    live.find(id)->second = std::move(pending.live);
  } else {
    end_request_with_error(*pending.live, status);
    live.erase(id);
  }
}

// Drops a request; one that a pass in flight reads is kept until that pass has ended.
void Engine::Impl::forget(RequestId id) noexcept {
  auto found = live.find(id);
  if (found == live.end()) return;
  found->second->cancelled = true;
  if (!pass) live.erase(found);
}

// Null for a request that was cancelled or has been dropped.
AcceptedRequest* Engine::Impl::find(RequestId id) {
  const auto found = live.find(id);
  return found == live.end() || found->second->cancelled ? nullptr : found->second.get();
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
  PassInFlight& next = pass.emplace();  // whatever fails from here on, `fail_pass` undoes
  next.plan = batcher->plan(plan_limits, now());
  if (next.plan.empty()) {
    pass.reset();
    return false;
  }

  const double started = now();
  for (const PlanSlice& slice : next.plan.slices) {
    AcceptedRequest* request = find(slice.request);
    if (request && !request->first_pass) request->first_pass = started;
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
  const auto awaits = passes_alone > 0 ? model::Decoder::Awaits::no : model::Decoder::Awaits::yes;
  if (passes_alone > 0) --passes_alone;
  next.begin_status = decoder->begin(next.plan, std::move(draws), awaits);
  return true;
}

// Runs operations until the pass is done, fails, or the time is over.
Status Engine::Impl::run_pass(const StepLimits& limits, double started, bool& cut) {
  if (!pass->begin_status.ok()) return pass->begin_status;
  const double limit = std::chrono::duration<double>(limits.time).count();
  double before = now();
  while (decoder->has_operations()) {
    Status status = decoder->run_operation();
    const double after = now();
    pass->seconds += after - before;
    before = after;
    if (!status.ok()) return status;
    if (limit > 0 && after - started >= limit && decoder->has_operations()) {
      cut = true;
      return {};
    }
  }
  if (!decoder->is_awaited()) {
    pass->results = decoder->take_results();
    return {};
  }
  if (pass->awaited_since == 0) pass->awaited_since = before;
  if (may_begin_ahead(limits)) begin_ahead();
  Status status = await_pass(limits, started, cut);
  // With what came between steps: the device went on.
  if (!cut) pass->seconds += now() - pass->awaited_since;
  return status;
}

// The pass is computed: tokens join their answers, pages are published, events are made. Throws
// only before anything is changed.
void Engine::Impl::commit_pass(StepReport& report) {
  const Plan& plan = pass->plan;
  std::vector<DrawOutcome> outcomes(plan.draws.size(), {0, false, true});  // if cancelled
  accept_results(pass->results, outcomes);
  batcher->commit(plan, outcomes, now());
  const Status no_memory(StatusCode::out_of_memory, "out of memory");
  for (const PlanSlice& slice : plan.slices) {
    AcceptedRequest* request = find(slice.request);
    if (!request) continue;
    if (request->finished()) {
      batcher->cancel(
          slice.request);  // if it has ended for a reason that the batcher does not know
    } else if (!batcher->has_request(slice.request)) {
      end_request_with_error(*request, no_memory);
    }
  }
  costs.add_pass(plan.decode_tokens, plan.prefill_tokens, pass->seconds);
  report.decode_tokens += plan.decode_tokens;
  report.prefill_tokens += plan.prefill_tokens;
  report.sequences = static_cast<int>(plan.slices.size());
  end_pass();
}

// A request whose result cannot be taken for lack of memory ends; the others have theirs.
void Engine::Impl::accept_results(std::vector<DrawResult>& results,
                                  std::vector<DrawOutcome>& outcomes) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const PassInFlight::DrawPurpose& purpose = pass->purposes[i];
    AcceptedRequest* request = find(purpose.request);
    if (!request) continue;
    const Status status = guarded("taking a token", [&] {
      if (!purpose.of_prompt) {
        const auto draw = static_cast<std::size_t>(purpose.index);
        outcomes[draw] = accept_draw(*request, pass->plan.draws[draw].choice, results[i]);
      } else if (results[i].status.ok()) {
        accept_prompt_result(*request, purpose.index, results[i]);
      } else {
        end_request_with_error(*request, results[i].status);
      }
      return Status();
    });
    if (!status.ok()) end_request_with_error(*request, status);
  }
  // Requests of no new token end with their last prompt row.
  for (const PlanSlice& slice : pass->plan.slices) {
    AcceptedRequest* request = find(slice.request);
    if (!request) continue;
    request->failures = 0;
    const auto end = static_cast<std::size_t>(slice.first_position + slice.tokens);
    if (request->max_tokens == 0 && end >= request->prompt.size()) finish_without_tokens(*request);
  }
}

void Engine::Impl::end_pass() noexcept {
  pass.reset();
  if (ahead && batcher->running() > 0) {
    pass = std::move(ahead);
    ahead.reset();
    pass->seconds = 0;
    pass->awaited_since = now();
  } else if (ahead) {  // nothing of it is wanted any more: its pages are free at once
    decoder->abandon_last();
    drop_ahead();
  }
  for (auto it = live.begin(); it != live.end();) {
    const bool over = it->second->cancelled || it->second->finished();
    it = over ? live.erase(it) : std::next(it);
  }
}

// Nothing of the pass stays. Its requests (all, if there was no plan yet) are planned again if
// memory may come back, else they end.
void Engine::Impl::fail_pass(const Status& why) noexcept {
  decoder->abandon();
  ahead.reset();
  batcher->fail(pass->plan);
  ++failed_passes;
  for (const PlanSlice& slice : pass->plan.slices) {
    if (AcceptedRequest* request = find(slice.request)) fail_request(*request, why);
  }
  if (pass->plan.empty()) {
    for (auto& [id, request] : live) {
      if (!request->cancelled) fail_request(*request, why);
    }
  }
  end_pass();
}

void Engine::Impl::fail_request(AcceptedRequest& request, const Status& why) noexcept {
  constexpr int kMostFailures = 3;
  if (request.finished() || request.failed_pass == failed_passes) return;
  request.failed_pass = failed_passes;
  if (why.code() == StatusCode::out_of_memory && ++request.failures < kMostFailures) return;
  end_request_with_error(request, why);
  batcher->cancel(request.id);
}

// One pass, or what the time allows of it; `idle` if there is nothing to compute.
Status Engine::Impl::advance(const StepLimits& limits, double started, StepReport& report,
                             bool& idle) {
  do {
    if (pass && pass->lost) repeat_pass();
    if (pass && exceeds(limits)) drop_pass();
    if (!pass && !begin_pass(limits)) {
      idle = true;
      return {};
    }
    if (Status status = run_pass(limits, started, report.cut); !status.ok()) return status;
    if (report.cut) return {};
  } while (pass->lost);
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
    if (!status.ok() && pass) fail_pass(status);
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
  std::vector<TokenEvent> events;
  events.reserve(outbox.size());
  for (auto event = outbox.begin(); event != outbox.end();) {
    const bool live_still = ids.contains(event->request);  // else cancelled since
    if (live_still && only && event->request != *only) {
      ++event;
      continue;
    }
    if (live_still) {
      if (event->report) ids.end(event->request);  // the last one of its request
      events.push_back(std::move(*event));
    }
    event = outbox.erase(event);
  }
  return events;
}

}  // namespace quire
