#include <algorithm>

#include "base/error.h"
#include "batching/batcher_impl.h"

namespace quire {

Status Batcher::Impl::check() const {
  if (!fault.ok()) return fault;
  std::vector<std::vector<int>> references;
  for (const PageAllocator& a : allocators) {
    references.emplace_back(static_cast<std::size_t>(a.page_count()), 0);
  }
  std::unordered_map<CacheNode, int> pins;
  int slots = 0, kept = 0;
  std::size_t running_count = 0, waiting_count = 0;
  for (const auto& [id, owned] : sequences) {
    const Sequence& s = *owned;
    if (s.tip != kNoNode) ++pins[s.tip];
    const bool queued = s.request != nullptr && !s.running;
    running_count += s.running;
    waiting_count += queued;
    slots += s.running ? s.slots : 0;
    kept += s.headroom;
    for (std::size_t g = 0; g < groups(); ++g) {
      const PageTable& table = s.tables[g];
      if (queued && !table.empty()) {
        return error(StatusCode::internal, "sequence {} waits with {} pages", id, table.size());
      }
      if (s.running && table.size() < pages_for(s.computed)) {
        return error(StatusCode::internal, "sequence {} has {} pages for {} tokens", id,
                     table.size(), s.computed);
      }
      for (int i = 0; i < table.size(); ++i) {
        if ((table[i] == kNoPage) != (i < table.first_held())) {
          return error(StatusCode::internal, "sequence {}: entry {} of group {} is {}", id, i, g,
                       table[i]);
        }
        if (table[i] == kNoPage) continue;
        ++references[g][static_cast<std::size_t>(table[i])];
        // What is still to be written belongs to this sequence alone; behind the end of an answer
        // nobody reads what a pass made ahead writes.
        if (s.request == nullptr) continue;
        const bool own = i == s.own_page && i == s.computed / options.page_size;
        const bool written = own || (s.in_flight && (i + 1) * options.page_size > s.computed);
        if (written &&
            (allocators[g].cached(table[i]) || must_copy(static_cast<int>(g), table[i]))) {
          return error(StatusCode::internal,
                       "sequence {} writes page {} of group {}, which is shared", id, table[i], g);
        }
      }
      if (s.running &&
          s.tables[g].first_held() > first_needed_page(static_cast<int>(g), s.computed)) {
        return error(StatusCode::internal, "sequence {} lacks pages inside its window", id);
      }
    }
  }
  for (const Growth& growth : flight.growth) {
    if (growth.replaced == kNoPage) continue;
    ++references[static_cast<std::size_t>(growth.group)][static_cast<std::size_t>(growth.replaced)];
  }
  for (const PageCopy& copy : flight.sources) {
    ++references[static_cast<std::size_t>(copy.group)][static_cast<std::size_t>(copy.from)];
  }
  for (std::size_t g = 0; g < groups(); ++g) {
    if (Status status = allocators[g].check(); !status.ok()) return status;
    for (PageId page = 0; page < allocators[g].page_count(); ++page) {
      const int found = references[g][static_cast<std::size_t>(page)];
      if (found != allocators[g].references(page)) {
        return error(StatusCode::internal, "page {} of group {} has {} references, {} found", page,
                     g, allocators[g].references(page), found);
      }
    }
  }
  if (running_count != running.size() || waiting_count != waiting.size() || slots != used_slots ||
      kept != headroom) {
    return error(StatusCode::internal,
                 "{} sequences run, {} wait, {} slots, {} pages kept; {}, {}, {}, {} counted",
                 running_count, waiting_count, slots, kept, running.size(), waiting.size(),
                 used_slots, headroom);
  }
  for (const SequenceList* list : {&running, &waiting}) {
    if (!std::is_sorted(list->begin(), list->end(), MoreUrgent())) {
      return error(StatusCode::internal, "the running or waiting sequences are out of order");
    }
  }
  for (const auto& [key, id] : promised) {
    if (!sequences.contains(id)) {
      return error(StatusCode::internal, "sequence {} is gone, its pages are still awaited", id);
    }
  }
  return cache.check(pins);
}

}  // namespace quire
