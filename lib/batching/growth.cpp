#include <algorithm>

#include "batching/batcher_impl.h"

namespace quire {

// The first page that holds a token which a query at `position` sees.
int Batcher::Impl::first_needed_page(int group, int position) const {
  const int window = options.windows[static_cast<std::size_t>(group)];
  return window == 0 ? 0 : std::max(0, position - window + 1) / options.page_size;
}

PageId Batcher::Impl::take_page(int group) {
  PageId page = allocator(group).allocate();
  if (page == kNoPage && cache.evict(group)) page = allocator(group).allocate();
  return page;
}

PageId Batcher::Impl::take_page_for(Sequence* s, int group) {
  for (;;) {
    const PageId page = take_page(group);
    if (page != kNoPage) return page;
    Sequence* victim = running.back();
    preempt(victim);
    if (victim == s) return kNoPage;
  }
}

// Whether somebody else reads this page: the cache, or a sibling. References that the plan keeps
// for a failure belong to sequences that have their copy already.
bool Batcher::Impl::must_copy(int group, PageId page) const {
  const PageAllocator& a = allocators[static_cast<std::size_t>(group)];
  if (a.cached(page)) return true;
  int others = a.references(page) - 1;
  if (others == 0) return false;
  for (const Growth& growth : flight.growth) {
    if (growth.group == group && growth.replaced == page) --others;
  }
  return others > 0;
}

// Makes room for one more token: a new page where the last one is full, a copy where it is shared.
bool Batcher::Impl::grow(Sequence* s, Plan* plan) {
  const int index = s->computed / options.page_size;
  if (index == s->own_page) return true;
  const std::size_t old_growth = flight.growth.size();
  const std::size_t old_copies = plan->copies.size();
  for (int g = 0; g < static_cast<int>(groups()); ++g) {
    PageTable& table = s->tables[static_cast<std::size_t>(g)];
    if (index < table.size() && !must_copy(g, table[index])) continue;
    const PageId page = take_page_for(s, g);
    if (page == kNoPage) {
      for (; flight.growth.size() > old_growth; flight.growth.pop_back()) {
        const Growth& undone = flight.growth.back();
        if (undone.replaced == kNoPage) continue;
        require(allocator(undone.group).release(undone.replaced), "a page was released twice");
      }
      plan->copies.resize(old_copies);
      return false;
    }
    Growth growth{s, g, index, kNoPage};
    if (index < table.size()) {
      growth.replaced = table.replace(index, page);
      const int kept = s->computed % options.page_size;
      if (kept > 0) plan->copies.push_back({g, growth.replaced, page, kept});
    } else {
      table.append(page);
    }
    flight.growth.push_back(growth);
  }
  s->own_page = index;
  return true;
}

// A page for a prompt: free, by eviction, or from the newest sequence of the lowest urgency, if
// that comes after `s` and is not part of the plan.
PageId Batcher::Impl::take_page_behind(const Sequence* s, int group) {
  PageId page = take_page(group);
  for (std::size_t i = running.size(); page == kNoPage && i > 0 && running[i - 1] != s; --i) {
    if (running[i - 1]->in_flight) continue;
    preempt(running[i - 1]);
    page = take_page(group);
  }
  return page;
}

// Full groups hold a whole prompt since its admission; a group with a window takes pages as it
// goes. Short of pages, a prompt goes by shorter chunks.
int Batcher::Impl::grow_prompt(Sequence* s, int count) {
  const std::size_t old_growth = flight.growth.size();
  for (int g = 0; g < static_cast<int>(groups()); ++g) {
    PageTable& table = s->tables[static_cast<std::size_t>(g)];
    while (table.size() < pages_for(s->computed + count)) {
      const PageId page = take_page_behind(s, g);
      if (page == kNoPage) {
        count = table.size() * options.page_size - s->computed;
        break;
      }
      flight.growth.push_back({s, g, table.size(), kNoPage});
      table.append(page);
    }
  }
  for (; count == 0 && flight.growth.size() > old_growth; flight.growth.pop_back()) {
    const Growth& undone = flight.growth.back();
    require(s->tables[static_cast<std::size_t>(undone.group)].truncate(undone.index,
                                                                       allocator(undone.group)),
            "a page was released twice");
  }
  return count;
}

// Takes everything from a sequence and queues it again. What it had computed stays in the cache.
void Batcher::Impl::preempt(Sequence* s) {
  publish_tail(s);
  stop_running(s);
  give_back_pages(s);
  s->passed = 0;
  waiting.insert(s);
  ++s->request->preemptions;
  ++preemption_count;
  preempted = true;
}

void Batcher::Impl::release_behind_windows(Sequence* s) {
  for (int g = 0; g < static_cast<int>(groups()); ++g) {
    if (options.windows[static_cast<std::size_t>(g)] == 0) continue;
    const int first = first_needed_page(g, s->computed);
    require(s->tables[static_cast<std::size_t>(g)].release_before(first, allocator(g)),
            "a page was released twice");
  }
}

}  // namespace quire
