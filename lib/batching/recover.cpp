#include "batching/batcher_impl.h"

namespace quire {

// After an exception in the middle of a change. What cannot be half changed are the requests and
// their tokens: pages, cache and orders are made anew from these, and need no memory for it. Every
// sequence waits and is computed again from its start.
void Batcher::Impl::recover() noexcept {
  for (PageAllocator& a : allocators) a.reset();
  cache.reset();
  promised.clear();
  running.clear();
  waiting.clear();
  used_slots = headroom = 0;
  for (const auto& [id, owned] : sequences) {
    Sequence& s = *owned;
    for (PageTable& table : s.tables) table.forget();
    s.tip = kNoNode;
    s.own_page = -1;
    s.computed = s.published = s.producing_end = s.headroom = 0;
    s.running = s.answering = false;
    s.urgency = s.priority;
    s.looked_up_at = ~std::uint64_t{0};
    if (s.request != nullptr) waiting.insert(&s);
  }
  forget_ahead();
}

// Memory ran out while a plan was made.
void Batcher::Impl::abandon_plan() noexcept {
  uncount_passed();
  flight.clear();
  for (const auto& [id, owned] : sequences) owned->in_flight = false;
  recover();
}

}  // namespace quire
