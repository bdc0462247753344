#include <utility>

#include "batching/batcher_impl.h"

namespace quire {
namespace {

// The token of this entry, once drawn, is the last of its answer whatever it is.
bool ends_by_length(const Sequence& s) {
  const LiveRequest& request = *s.request;
  return s.size() + 1 >= request.prompt_tokens + request.spec.max_tokens;
}

}  // namespace

Plan Batcher::plan_ahead(double now) {
  Impl& b = *impl_;
  if (b.flight.serial == 0 || b.ahead.serial != 0 || !b.can_plan_ahead()) return {};
  b.now = now;
  Plan plan;
  try {
    if (b.make_plan_ahead(&plan)) return plan;
  } catch (...) {  // no memory for it: the next pass is planned after the commit
  }
  b.drop_ahead();
  return {};
}

// Whether the pass in flight gives each running sequence exactly one token, and nobody could join
// the next: who waits for a slot gets it one pass later.
bool Batcher::Impl::can_plan_ahead() const {
  const bool may_join = !waiting.empty() && used_slots < options.max_running;
  if (may_join || flight.entries.empty()) return false;
  std::size_t running_entries = 0;
  for (const PassEntry& entry : flight.entries) {
    const Sequence& s = *entry.sequence;
    if (s.request == nullptr) continue;
    const bool one_answer = s.request->forked || s.request->spec.n == 1;
    if (!s.running || !one_answer || entry.draws != 1 || entry.end != s.size()) return false;
    ++running_entries;
  }
  return running_entries == running.size();
}

bool Batcher::Impl::make_plan_ahead(Plan* plan) {
  ahead.serial = ++last_serial;
  const std::size_t most = flight.entries.size();
  plan->pages.reserve(last_page_count + most * groups());
  ahead.entries.reserve(most);
  ahead.growth.reserve(most * groups());
  std::int32_t draw = 0;
  for (const PassEntry& entry : flight.entries) {
    Sequence* s = entry.sequence;
    const std::int32_t own_draw = std::exchange(draw, draw + entry.draws);
    if (s->request == nullptr || ends_by_length(*s)) continue;
    if (!grow_ahead(s, entry.end)) return false;
    add_slice_ahead(plan, s, entry.end, own_draw);
  }
  plan->serial = ahead.serial;
  return !plan->empty();
}

// Makes room for the token at `position`, without taking anything from anybody.
bool Batcher::Impl::grow_ahead(Sequence* s, int position) {
  const int index = position / options.page_size;
  if (index == s->own_page) return true;
  for (int g = 0; g < static_cast<int>(groups()); ++g) {
    PageTable& table = s->tables[static_cast<std::size_t>(g)];
    if (index < table.size()) {
      if (must_copy(g, table[index])) return false;
      continue;
    }
    table.reserve(index + 1);
    const PageId page = take_page(g);
    if (page == kNoPage) return false;
    table.append(page);
    ahead.growth.push_back({s, g, index, kNoPage});
  }
  return true;
}

void Batcher::Impl::add_slice_ahead(Plan* plan, Sequence* s, int position, std::int32_t draw) {
  // The commits that append the tokens must not need memory for them.
  if (s->tokens.size() + 2 > s->tokens.capacity()) s->tokens.reserve(2 * s->tokens.size() + 2);
  const int row = static_cast<int>(plan->tokens.size());
  add_rows(plan, s, position, 1, true);
  plan->tokens.push_back(0);
  plan->token_draws.push_back(draw);
  plan->logit_rows.push_back(row);
  plan->draws.push_back({row, s->id, s->request->spec.id, s->choice});
  ahead.entries.push_back({.sequence = s, .tokens = 1, .end = position + 1, .draws = 1});
  s->ahead = true;
  s->own_page = position / options.page_size;
}

// After the commit of the pass before it: the plan made ahead is the one in flight.
void Batcher::Impl::promote_ahead() noexcept {
  if (ahead.serial == 0) return;
  std::swap(flight, ahead);
  for (const PassEntry& entry : flight.entries) {
    entry.sequence->ahead = false;
    entry.sequence->in_flight = true;
  }
}

// Undoes plan_ahead. Sequences that have ended since, or were cancelled, go.
void Batcher::Impl::drop_ahead() noexcept {
  for (auto growth = ahead.growth.rbegin(); growth != ahead.growth.rend(); ++growth) {
    PageTable& table = growth->sequence->tables[static_cast<std::size_t>(growth->group)];
    require(table.truncate(growth->index, allocator(growth->group)), "a page was released twice");
  }
  forget_ahead();
}

// Without giving back pages: that is done, or they have been reset.
void Batcher::Impl::forget_ahead() noexcept {
  for (const PassEntry& entry : ahead.entries) {
    Sequence* s = entry.sequence;
    s->ahead = false;
    s->own_page = -1;
    if (s->request != nullptr || s->in_flight) continue;
    give_back_pages(s);
    destroy(s);
  }
  ahead.clear();
}

}  // namespace quire
