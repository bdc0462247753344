#include "base/error.h"
#include "engine/engine_impl.h"
#include "sampling/penalties.h"

namespace quire {

// With limits to keep, the device gets no more to do than is asked for; and a pass that others wait
// to join, or a draw that reads the token before it, has to be planned when that is known. The
// draws of a plan are those of the device only without prompt tokens among them.
bool Engine::Impl::may_begin_ahead(const StepLimits& limits) {
  if (!limits.run_ahead || limits.time.count() > 0 || limits.tokens > 0) return false;
  if (ahead || passes_alone > 0 || pass->purposes.size() != pass->plan.draws.size()) return false;
  take_in();
  for (const PlanDraw& draw : pass->plan.draws) {
    const AcceptedRequest* request = find(draw.request);
    if (request && sampling::has_penalties(request->params)) return false;
  }
  return true;
}

// Plans the pass after the one whose draws are awaited, and queues it on the device, so that it
// does not stand still until those are here. Without effect if that cannot be.
void Engine::Impl::begin_ahead() {
  const Status status = guarded("a pass ahead", [&]() -> Status {
    PassInFlight& next = ahead.emplace();
    next.plan = batcher->plan_ahead(now());
    std::vector<model::RowDraw> draws;
    for (std::size_t i = 0; i < next.plan.draws.size(); ++i) {
      const PlanDraw& draw = next.plan.draws[i];
      const AcceptedRequest& owner = *live.at(draw.request);
      draws.push_back({next.plan.logit_rows[draw.logit_row], owner.draw(draw.choice, 1)});
      next.purposes.push_back({owner.id, false, static_cast<int>(i)});
    }
    if (next.plan.empty()) return Status(StatusCode::resource_exhausted, "nothing goes on");
    Status begun = decoder->begin_ahead(next.plan, std::move(draws));
    while (begun.ok() && decoder->has_operations()) begun = decoder->run_operation();
    return begun;
  });
  if (status.ok()) return;
  if (decoder->is_ahead()) decoder->abandon_last();
  drop_ahead();
}

void Engine::Impl::drop_ahead() noexcept {
  batcher->fail(ahead->plan);
  ahead.reset();
}

// Brings the results of the pass, which the device may still be computing.
Status Engine::Impl::await_pass(const StepLimits& limits, double started, bool& cut) {
  const double limit = std::chrono::duration<double>(limits.time).count();
  DrawsState state = DrawsState::computing;
  while (state == DrawsState::computing) {
    Status status = decoder->await(limit <= 0, state, pass->results);
    if (!status.ok()) return status;
    if (limit > 0 && state == DrawsState::computing && now() - started >= limit) {
      cut = true;
      return {};
    }
  }
  pass->lost = state == DrawsState::lost;
  return {};
}

// Nothing of the pass stays, and the next ones are computed without another on top of them: what
// was lost once may be so again.
void Engine::Impl::repeat_pass() noexcept {
  constexpr int kAlone = 64;
  passes_alone = kAlone;
  drop_pass();
}

// Whether the pass was begun ahead, for a step without limits, and is more than this one may do.
bool Engine::Impl::exceeds(const StepLimits& limits) const {
  return !pass->plan.token_draws.empty() && limits.tokens > 0 &&
         static_cast<int>(pass->plan.tokens.size()) > limits.tokens;
}

// Nothing of the pass stays; its requests are planned again.
void Engine::Impl::drop_pass() noexcept {
  decoder->abandon();
  ahead.reset();
  batcher->fail(pass->plan);
  pass.reset();
}

}  // namespace quire
