#include <algorithm>

#include "batching/batcher_impl.h"
#include "paging/most_pages.h"

namespace quire {
namespace {

// How many waiting sequences one choice looks at: for a cached prefix, and at all (those that wait
// for a sibling are passed over, and while there is one, its producer runs).
constexpr int kLookahead = 16;
constexpr int kMostLookedAt = 64;

}  // namespace

int Batcher::Impl::match_limit(const Sequence& s) const {
  const int limit = s.size() - 1;  // at least one token is computed
  if (!s.request->spec.prompt_logits || s.request->forked) return limit;
  return std::min(limit, s.request->prompt_logits_done);  // the other rows' logits are still owed
}

bool Batcher::Impl::reads_cache(const Sequence& s) const {
  return s.publishes && match_limit(s) > 0;
}

void Batcher::Impl::look_up(Sequence* s) {
  if (s->looked_up_at == cache.version()) return;
  s->looked_up_at = cache.version();
  s->found_tokens = s->known_pages = 0;
  if (!reads_cache(*s)) return;
  s->keys.extend(s->tokens, options.page_size);
  const PrefixMatch match =
      cache.match(s->request->cache_name, s->tokens, s->keys.keys(), match_limit(*s));
  s->found_tokens = match.tokens;
  s->known_pages = match.known_pages;
}

// Whether a running sequence computes the next whole page that `s` needs. It then gets at least the
// urgency of `s`.
bool Batcher::Impl::waits_for_sibling(Sequence* s) {
  if (!reads_cache(*s)) return false;
  look_up(s);
  const int next = s->known_pages;
  if (next >= s->keys.size() || next * options.page_size >= match_limit(*s)) return false;
  const auto promise = promised.find(s->keys[next]);
  if (promise == promised.end()) return false;
  const auto producer = sequences.find(promise->second);
  if (producer == sequences.end() || !producer->second->running) return false;
  set_urgency(producer->second.get(), std::max(producer->second->urgency, s->urgency));
  return true;
}

// The first in order that does not wait for a sibling; or, if it may pass, a later one of the same
// priority that finds more in the cache and has less to compute.
Sequence* Batcher::Impl::choose_waiting(bool may_pass) {
  if (waiting.empty() || used_slots >= options.max_running) return nullptr;
  for (const PageAllocator& a : allocators) {
    if (a.free_count() + a.idle_count() == 0) return nullptr;
  }
  Sequence* first = nullptr;
  Sequence* best = nullptr;
  int looked_at = 0;
  for (Sequence* s : waiting) {
    if (++looked_at > (first != nullptr ? kLookahead : kMostLookedAt)) break;
    if (first != nullptr && s->priority != first->priority) break;
    if (waits_for_sibling(s)) continue;
    look_up(s);
    if (first == nullptr) {
      first = best = s;
      if (!may_pass) break;
    } else if (s->found_tokens > best->found_tokens &&
               s->size() - s->found_tokens < best->size() - best->found_tokens) {
      best = s;
    }
    if (s->passed >= options.max_bypasses) break;  // nobody behind it may pass any more
  }
  return best;
}

void Batcher::Impl::count_passed(const Sequence* s) {
  for (Sequence* earlier : waiting) {
    if (earlier == s) break;
    if (waits_for_sibling(earlier)) continue;  // waits by choice
    ++earlier->passed;
    ++earlier->request->bypasses;
    flight.passed.push_back(earlier->id);
  }
}

int Batcher::Impl::room(int group, int own_headroom) const {
  // Alone, a sequence needs no more than can_ever_fit has counted.
  const int kept = running.empty() ? 0 : headroom + own_headroom;
  const PageAllocator& a = allocators[static_cast<std::size_t>(group)];
  return a.free_count() + a.idle_count() - kept;
}

// The end of the pages that a prompt of `total` pages starts with. In a group with a window that is
// what the longest pass needs: from there on, pages that fall behind the window make up for new
// ones.
int Batcher::Impl::reserved_pages(int group, int found_tokens, int total) const {
  const int window = options.windows[static_cast<std::size_t>(group)];
  if (window == 0) return total;
  const std::size_t most = most_pages(
      static_cast<std::size_t>(window) - 1 + static_cast<std::size_t>(options.max_step_tokens),
      static_cast<std::size_t>(options.page_size));
  const std::size_t first = static_cast<std::size_t>(first_needed_page(group, found_tokens));
  return static_cast<int>(std::min(static_cast<std::size_t>(total), first + most));
}

// Locks what was found, and pins its last node; then reserves the rest of the prompt, of windows
// what the next pass needs. False, and nothing kept, if there is no room.
bool Batcher::Impl::reserve_prompt(Sequence* s, const PrefixMatch& match, Plan* plan) {
  const int found = static_cast<int>(match.pages.size());
  const int total = pages_for(s->size());
  std::vector<PageCopy> copies;
  bool ok = true;
  if (found > 0) cache.pin(match.pages.back());
  for (int g = 0; g < static_cast<int>(groups()); ++g) {
    PageTable& table = s->tables[static_cast<std::size_t>(g)];
    table.reserve(total + 1);
    const int needed = first_needed_page(g, match.tokens);
    for (int i = 0; i < found; ++i) {
      const PageId page =
          i < needed ? kNoPage : cache.page(match.pages[static_cast<std::size_t>(i)], g);
      if (page != kNoPage) require(allocator(g).retain(page), "a cached page could not be locked");
      table.append(page);
    }
    if (match.inside != kNoNode) {
      copies.push_back({g, cache.page(match.inside, g), kNoPage, match.inside_tokens});
      require(allocator(g).retain(copies.back().from), "a cached page could not be locked");
    }
  }
  for (int g = 0; ok && g < static_cast<int>(groups()); ++g) {
    const int free = room(g, s->headroom);
    int end = reserved_pages(g, match.tokens, total);
    // Alone, it is served in shorter chunks rather than never.
    const bool shorter = options.windows[static_cast<std::size_t>(g)] > 0 && running.empty();
    if (shorter) end = std::min(end, found + free);
    ok = end > found && end - found <= free;
    for (int i = found; ok && i < end; ++i) {
      const PageId page = take_page(g);
      ok = page != kNoPage;
      if (ok) s->tables[static_cast<std::size_t>(g)].append(page);
    }
  }
  for (PageCopy& copy : copies) {
    if (ok) {
      copy.to = s->tables[static_cast<std::size_t>(copy.group)][found];
      plan->copies.push_back(copy);
      flight.sources.push_back(copy);
    } else {
      require(allocator(copy.group).release(copy.from), "a page was released twice");
    }
  }
  for (int g = 0; !ok && g < static_cast<int>(groups()); ++g) {
    require(s->tables[static_cast<std::size_t>(g)].truncate(0, allocator(g)),
            "a page was released twice");
  }
  if (!ok && found > 0) cache.unpin(match.pages.back());
  return ok;
}

bool Batcher::Impl::admit(Sequence* s, Plan* plan) {
  if (used_slots + s->slots > options.max_running) return false;
  const LiveRequest& request = *s->request;
  const bool reads = reads_cache(*s);
  if (s->publishes) s->keys.extend(s->tokens, options.page_size);
  PrefixMatch match;
  const auto find = [&](int limit) {
    if (reads) match = cache.match(request.cache_name, s->tokens, s->keys.keys(), limit);
  };
  find(match_limit(*s));
  const bool grows = s->size() < request.prompt_tokens + request.spec.max_tokens - 1;
  s->headroom = grows ? s->slots : 0;
  bool reserved = reserve_prompt(s, match, plan);
  if (!reserved && match.inside != kNoNode) {
    // The page to copy from is one more than the sequence itself needs: do without.
    find(static_cast<int>(match.pages.size()) * options.page_size);
    reserved = reserve_prompt(s, match, plan);
  }
  if (!reserved) {
    s->headroom = 0;
    return false;
  }
  count_passed(s);
  waiting.erase(s);
  s->passed = 0;
  s->computed = match.tokens;
  s->published = static_cast<int>(match.pages.size());
  if (s->publishes) {
    s->tip = match.pages.empty() ? cache.pin_root(request.cache_name) : match.pages.back();
    promise_pages(s);
  }
  start_running(s);
  s->in_flight = true;
  flight.entries.push_back({.sequence = s, .admitted = true, .found_tokens = match.tokens});
  flight.queries += reads ? 1 : 0;
  flight.hit_tokens += match.tokens;
  return true;
}

void Batcher::Impl::promise_pages(Sequence* s) {
  s->producing_end = s->keys.size();
  for (int i = s->published; i < s->producing_end; ++i) promised.try_emplace(s->keys[i], s->id);
}

void Batcher::Impl::unpromise_pages(Sequence* s, int first, int end) {
  for (int i = first; i < std::min(end, s->producing_end); ++i) {
    const auto promise = promised.find(s->keys[i]);
    if (promise != promised.end() && promise->second == s->id) promised.erase(promise);
  }
}

}  // namespace quire
