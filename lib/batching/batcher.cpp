#include "batching/batcher.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "batching/batcher_impl.h"

namespace quire {

Batcher::Impl::Impl(const BatcherOptions& o)
    : options(o),
      allocators(o.page_counts.begin(), o.page_counts.end()),
      cache(o.page_size, o.windows, allocators) {}

Batcher::Batcher(const BatcherOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Batcher::~Batcher() = default;
Batcher::Batcher(Batcher&&) noexcept = default;
Batcher& Batcher::operator=(Batcher&&) noexcept = default;

void Batcher::add(BatchRequest spec, double now) {
  Impl& b = *impl_;
  b.now = now;
  if (spec.prompt.empty() || b.requests.contains(spec.id)) return;
  b.make_room();
  auto request = std::make_unique<LiveRequest>();
  auto sequence = std::make_unique<Sequence>();
  Sequence* s = sequence.get();
  s->id = ++b.last_sequence;
  s->request = request.get();
  s->priority = s->urgency = spec.priority;
  s->arrival = request->arrival = ++b.last_arrival;
  s->tokens = std::move(spec.prompt);
  s->slots = spec.max_tokens > 0 ? spec.n : 1;
  s->publishes = b.options.prefix_cache && spec.use_prefix_cache;
  s->tables.resize(b.groups());
  request->prompt_tokens = s->size();
  request->cache_name = cache_name(b.options.cache_namespace, spec.rope_choice, spec.tenant);
  request->choices.assign(static_cast<std::size_t>(spec.n), nullptr);
  request->choices[0] = s;
  request->live_choices = spec.max_tokens > 0 ? spec.n : 1;
  request->added_at = now;
  request->spec = std::move(spec);
  s->keys = PageKeys(request->cache_name);
  const auto added = b.sequences.emplace(s->id, std::move(sequence)).first;
  try {
    b.requests.emplace(request->spec.id, std::move(request));
  } catch (...) {
    b.sequences.erase(added);
    throw;
  }
  b.waiting.insert(s);
}

void Batcher::Impl::make_room() {
  running.reserve(sequences.size() + 1);
  waiting.reserve(sequences.size() + 1);
  const std::size_t reports = retired.size() + requests.size() + 1;
  if (reports > retired.capacity()) retired.reserve(std::max(reports, 2 * retired.capacity()));
}

bool Batcher::cancel(RequestId id) {
  Impl& b = *impl_;
  const auto found = b.requests.find(id);
  if (found == b.requests.end()) return false;
  b.retired.emplace_back(id, b.make_report(*found->second, b.now));
  for (Sequence* s : found->second->choices) {
    if (s == nullptr) continue;
    b.leave_queue(s);
    s->request = nullptr;
    if (s->in_flight || s->ahead) continue;  // its pages are being written
    b.give_back_pages(s);
    b.destroy(s);
  }
  b.requests.erase(found);
  return true;
}

Plan Batcher::plan(const PlanLimits& limits, double now) {
  Impl& b = *impl_;
  if (b.flight.serial != 0) b.fail();
  b.now = now;
  b.preempted = false;
  b.retired.clear();
  try {
    return b.make_plan(limits);
  } catch (...) {
    b.abandon_plan();
    throw;
  }
}

Plan Batcher::Impl::make_plan(const PlanLimits& limits) {
  Plan plan;
  plan.serial = flight.serial = ++last_serial;
  int budget = options.max_step_tokens;
  if (limits.max_tokens > 0) budget = std::min(budget, limits.max_tokens);
  plan_decodes(&plan, &budget);
  if (plan.decode_tokens > 0 && limits.max_chunk > 0) budget = std::min(budget, limits.max_chunk);
  plan_prompts(&plan, &budget);
  last_page_count = plan.pages.size();
  if (plan.empty()) {
    land();
    plan.serial = 0;
  }
  return plan;
}

void Batcher::Impl::plan_decodes(Plan* plan, int* budget) {
  const std::size_t rows = std::min(running.size(), static_cast<std::size_t>(std::max(0, *budget)));
  plan->tokens.reserve(rows);
  plan->positions.reserve(rows);
  plan->rope_choices.reserve(rows);
  plan->slices.reserve(rows);
  plan->logit_rows.reserve(rows);
  plan->draws.reserve(rows);
  flight.entries.reserve(rows);
  plan->pages.reserve(last_page_count + rows);
  // Pages come from the back of `running`, so nothing that was planned is preempted.
  for (std::size_t i = 0; i < running.size() && *budget > 0; ++i) {
    Sequence* s = running[i];
    if (!s->answering) continue;
    if (!grow(s, plan)) break;
    add_slice(plan, s, 1);
    --*budget;
  }
}

void Batcher::Impl::plan_prompts(Plan* plan, int* budget) {
  std::vector<Sequence*> prompts;
  for (Sequence* s : running) {
    if (!s->answering) prompts.push_back(s);
  }
  // After a preemption, pages are short: only what keeps the engine from standing still is
  // admitted.
  bool closed = preempted && (!plan->empty() || !prompts.empty());
  bool may_pass = true;
  std::size_t next = 0;
  while (*budget > 0) {
    Sequence* admitted = closed ? nullptr : choose_waiting(may_pass);
    std::sort(prompts.begin() + static_cast<std::ptrdiff_t>(next), prompts.end(), MoreUrgent());
    Sequence* s = next < prompts.size() ? prompts[next] : nullptr;
    if (admitted != nullptr && (s == nullptr || MoreUrgent()(admitted, s))) {
      if (!admit(admitted, plan)) {
        closed = waiting.front() == admitted || !may_pass;
        may_pass = false;
        continue;
      }
      s = admitted;
    } else if (s != nullptr) {
      ++next;
    } else {
      break;
    }
    if (!s->running) continue;  // preempted by a prompt before it
    const long long preemptions = preemption_count;
    const int count = grow_prompt(s, std::min(*budget, s->size() - s->computed));
    closed = closed || preemption_count != preemptions;
    if (count == 0) continue;
    add_slice(plan, s, count);
    *budget -= count;
  }
}

// The rows of `count` tokens of a sequence from `position` on, but for the tokens themselves.
void Batcher::Impl::add_rows(Plan* plan, const Sequence* s, int position, int count, bool decode) {
  PlanSlice& slice = plan->slices.emplace_back();
  slice.sequence = s->id;
  slice.request = s->request->spec.id;
  slice.first_row = static_cast<int>(plan->tokens.size());
  slice.tokens = count;
  slice.first_position = position;
  slice.rope_choice = s->request->spec.rope_choice;
  slice.decode = decode;
  slice.page_count = pages_for(position + count);
  slice.first_page = plan->pages.size();
  for (const PageTable& table : s->tables) {
    const auto first = table.entries().begin();
    plan->pages.insert(plan->pages.end(), first, first + slice.page_count);
  }
  for (int i = 0; i < count; ++i) {
    plan->positions.push_back(position + i);
    plan->rope_choices.push_back(slice.rope_choice);
  }
  (decode ? plan->decode_tokens : plan->prefill_tokens) += count;
}

void Batcher::Impl::add_slice(Plan* plan, Sequence* s, int count) {
  LiveRequest& request = *s->request;
  const int first_row = static_cast<int>(plan->tokens.size());
  add_rows(plan, s, s->computed, count, s->answering);
  const auto first_token = s->tokens.begin() + s->computed;
  plan->tokens.insert(plan->tokens.end(), first_token, first_token + count);
  if (request.first_pass_at < 0) request.first_pass_at = now;

  if (request.spec.prompt_logits && !request.forked) {
    const int end = std::min(s->computed + count, request.prompt_tokens - 1);
    for (int p = std::max(s->computed, request.prompt_logits_done); p < end; ++p) {
      plan->prompt_logit_rows.push_back(first_row + p - s->computed);
    }
  }
  // An admission has made its entry already.
  if (!s->in_flight) flight.entries.push_back({.sequence = s});
  s->in_flight = true;
  flight.entries.back().tokens = count;
  flight.entries.back().end = s->computed + count;
  if (s->computed + count == s->size()) plan_draws(plan, s, first_row + count - 1);
}

void Batcher::Impl::plan_draws(Plan* plan, Sequence* s, int last_row) {
  const BatchRequest& spec = s->request->spec;
  if (spec.max_tokens == 0) return;
  // The commit that appends the token must not need memory for it.
  if (s->tokens.size() == s->tokens.capacity()) s->tokens.reserve(2 * s->tokens.size());
  const int logit_row = static_cast<int>(plan->logit_rows.size());
  plan->logit_rows.push_back(last_row);
  const int end = s->request->forked ? s->choice + 1 : spec.n;
  for (int choice = s->choice; choice < end; ++choice) {
    plan->draws.push_back({logit_row, s->id, spec.id, choice});
  }
  flight.entries.back().draws = end - s->choice;
}

void Batcher::Impl::start_running(Sequence* s) {
  s->running = true;
  used_slots += s->slots;
  headroom += s->headroom;
  running.insert(s);
}

void Batcher::Impl::stop_running(Sequence* s) {
  s->running = false;
  used_slots -= s->slots;
  headroom -= s->headroom;
  s->headroom = 0;
  require(running.erase(s), "a running sequence is not in its place");
  s->urgency = s->priority;
}

void Batcher::Impl::leave_queue(Sequence* s) {
  if (s->running) return stop_running(s);
  require(waiting.erase(s), "a waiting sequence is not in its place");
}

void Batcher::Impl::set_urgency(Sequence* s, int urgency) {
  if (s->urgency == urgency) return;
  require(running.erase(s), "a running sequence is not in its place");
  s->urgency = urgency;
  running.insert(s);
}

void Batcher::Impl::give_back_pages(Sequence* s) {
  for (std::size_t g = 0; g < groups(); ++g) {
    require(s->tables[g].truncate(0, allocators[g]), "a page was released twice");
  }
  unpromise_pages(s, s->published, s->producing_end);
  if (s->tip != kNoNode) cache.unpin(s->tip);
  s->tip = kNoNode;
  s->own_page = -1;
  s->published = s->producing_end = 0;
  s->computed = 0;
  s->answering = false;
  s->looked_up_at = ~std::uint64_t{0};
}

void Batcher::Impl::destroy(Sequence* s) {
  sequences.erase(s->id);
}

void Batcher::Impl::require(bool ok, const char* what) {
  if (!ok && fault.ok()) fault = Status(StatusCode::internal, what);
}

void Batcher::commit(const Plan& plan, std::span<const DrawOutcome> outcomes, double now) {
  Impl& b = *impl_;
  if (plan.serial == 0 || plan.serial != b.flight.serial) return;
  if (outcomes.size() != plan.draws.size()) {
    b.require(false, "a pass was committed without an outcome for each draw");
    return b.fail();
  }
  b.now = now;
  b.query_count += b.flight.queries;
  b.hit_token_count += b.flight.hit_tokens;
  const std::vector<PassEntry>& entries = b.landed;
  b.land();
  std::size_t draw = 0;
  for (const PassEntry& entry : entries) {
    const std::size_t draws = static_cast<std::size_t>(entry.draws);
    const LiveRequest* request = entry.sequence->request;
    const RequestId id = request == nullptr ? 0 : request->spec.id;
    try {
      b.commit_entry(entry, outcomes.subspan(draw, draws));
    } catch (...) {
      b.recover();
      cancel(id);
    }
    draw += draws;
  }
  b.promote_ahead();
}

void Batcher::fail(const Plan& plan) {
  if (plan.serial == 0) return;
  if (plan.serial == impl_->flight.serial) return impl_->fail();
  if (plan.serial == impl_->ahead.serial) impl_->drop_ahead();
}

void Batcher::clear_cache() {
  impl_->cache.clear();
}
Status Batcher::check_invariants() const {
  return impl_->check();
}

}  // namespace quire
