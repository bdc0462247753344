#include <algorithm>
#include <utility>

#include "batching/batcher_impl.h"

namespace quire {

void Batcher::Impl::commit_entry(const PassEntry& entry, std::span<const DrawOutcome> outcomes) {
  Sequence* s = entry.sequence;
  s->in_flight = false;
  if (s->request == nullptr) {  // cancelled meanwhile
    if (s->ahead) return;
    give_back_pages(s);
    destroy(s);
    return;
  }
  LiveRequest& request = *s->request;
  if (entry.admitted && request.cached_tokens < 0) request.cached_tokens = entry.found_tokens;
  if (s->running) s->computed = entry.end;  // else its pages were lost earlier in this commit
  request.prompt_logits_done =
      std::max(request.prompt_logits_done, std::min(entry.end, request.prompt_tokens - 1));
  publish_if_memory_lasts([&] { publish_whole_pages(s); });
  release_behind_windows(s);
  if (entry.end < s->size()) return;
  if (request.spec.max_tokens > 0) return apply_draws(s, outcomes);
  retire(s);  // a prompt without an answer
}

// The last choice that stands on `s` has ended.
void Batcher::Impl::retire(Sequence* s) {
  LiveRequest* request = s->request;
  const int choice = s->choice;
  publish_if_memory_lasts([&] { publish_tail(s); });
  leave_queue(s);
  if (s->ahead) {
    s->request = nullptr;  // the next pass writes its pages
  } else {
    give_back_pages(s);
    destroy(s);
  }
  end_choice(request, choice);
}

void Batcher::Impl::publish_whole_pages(Sequence* s) {
  const std::size_t page_size = static_cast<std::size_t>(options.page_size);
  while (s->publishes && (s->published + 1) * options.page_size <= s->computed) {
    const int index = s->published;
    s->keys.extend(s->tokens, options.page_size);
    page_buffer.clear();
    for (const PageTable& table : s->tables) page_buffer.push_back(table[index]);
    const CacheNode node = cache.publish(
        s->tip, s->keys[index],
        std::span(s->tokens).subspan(static_cast<std::size_t>(index) * page_size, page_size),
        page_buffer);
    unpromise_pages(s, index, index + 1);
    if (node == kNoNode) {  // keys collide: from here on the sequence keeps to itself
      unpromise_pages(s, index, s->producing_end);
      s->publishes = false;
      return;
    }
    for (int g = 0; g < static_cast<int>(groups()); ++g) {
      PageTable& table = s->tables[static_cast<std::size_t>(g)];
      const PageId known = cache.page(node, g);
      if (table[index] == kNoPage || known == kNoPage || known == table[index]) continue;
      // Somebody else has computed the same: keep one of the two.
      require(allocator(g).retain(known), "a cached page could not be locked");
      require(allocator(g).release(table.replace(index, known)), "a page was released twice");
    }
    cache.pin(node);
    cache.unpin(s->tip);
    s->tip = node;
    ++s->published;
  }
}

// Registers the last, partly filled page of a sequence that writes no more.
void Batcher::Impl::publish_tail(Sequence* s) {
  const int tail = s->computed - s->published * options.page_size;
  if (!s->publishes || tail <= 0 || tail >= options.page_size) return;
  page_buffer.clear();
  for (const PageTable& table : s->tables) page_buffer.push_back(table[s->published]);
  const std::size_t first = static_cast<std::size_t>(s->published * options.page_size);
  cache.publish_tail(s->tip, std::span(s->tokens).subspan(first, static_cast<std::size_t>(tail)),
                     page_buffer);
}

void Batcher::Impl::apply_draws(Sequence* s, std::span<const DrawOutcome> outcomes) {
  LiveRequest& request = *s->request;
  const int max_tokens = request.spec.max_tokens;
  if (request.first_token_at < 0) request.first_token_at = now;
  if (s->running && !s->answering) {
    s->answering = true;
    headroom -= std::exchange(s->headroom, 0);
    set_urgency(s, s->priority);
  }
  if (!request.forked) {
    request.forked = true;
    if (s->running) used_slots -= s->slots - 1;
    s->slots = 1;
    for (std::size_t choice = 1; choice < outcomes.size(); ++choice) {
      const DrawOutcome& outcome = outcomes[choice];
      request.generated_tokens += outcome.append ? 1 : 0;
      if (outcome.append && !outcome.finish && max_tokens > 1) {
        fork(s, static_cast<int>(choice), outcome.token);
      } else {
        end_choice(&request, static_cast<int>(choice));
      }
    }
  }
  const DrawOutcome& outcome = outcomes[0];
  if (outcome.append) {
    s->tokens.push_back(outcome.token);
    ++request.generated_tokens;
  }
  if (outcome.append && !outcome.finish && s->size() < request.prompt_tokens + max_tokens) return;
  retire(s);
}

// Another choice goes on from the end of `s`, on the same pages. The one change of a commit that
// needs memory it cannot do without.
void Batcher::Impl::fork(Sequence* s, int choice, std::int32_t token) {
  make_room();
  auto copy = std::make_unique<Sequence>(*s);
  copy->id = ++last_sequence;
  copy->choice = choice;
  copy->tokens.push_back(token);
  copy->producing_end = 0;
  copy->running = false;
  for (std::size_t g = 0; g < groups(); ++g) {
    require(s->tables[g].share(allocators[g], &copy->tables[g]), "a page could not be shared");
  }
  if (copy->tip != kNoNode) cache.pin(copy->tip);
  Sequence* added = copy.get();
  sequences.emplace(added->id, std::move(copy));
  s->request->choices[static_cast<std::size_t>(choice)] = added;
  s->running ? start_running(added) : waiting.insert(added);
}

void Batcher::Impl::end_choice(LiveRequest* request, int choice) {
  request->choices[static_cast<std::size_t>(choice)] = nullptr;
  if (--request->live_choices > 0) return;
  const RequestId id = request->spec.id;
  retired.emplace_back(id, make_report(*request, now));
  requests.erase(id);
}

void Batcher::Impl::land() {
  // Cached sources first: what stands on other pages must become idle before them.
  for (const PageCopy& copy : flight.sources) {
    require(allocator(copy.group).release(copy.from), "a page was released twice");
  }
  for (const Growth& growth : flight.growth) {
    if (growth.replaced == kNoPage) continue;
    require(allocator(growth.group).release(growth.replaced), "a page was released twice");
  }
  landed.clear();
  landed.swap(flight.entries);
  flight.clear();
}

void Batcher::Impl::uncount_passed() {
  for (std::uint64_t id : flight.passed) {
    const auto found = sequences.find(id);
    if (found == sequences.end() || found->second->request == nullptr) continue;
    if (found->second->passed > 0) --found->second->passed;
    --found->second->request->bypasses;
  }
}

void Batcher::Impl::fail() {
  drop_ahead();
  for (auto growth = flight.growth.rbegin(); growth != flight.growth.rend(); ++growth) {
    PageTable& table = growth->sequence->tables[static_cast<std::size_t>(growth->group)];
    PageAllocator& a = allocator(growth->group);
    if (growth->replaced == kNoPage) {
      require(table.truncate(growth->index, a), "a page was released twice");
    } else {
      require(a.release(table.replace(growth->index, std::exchange(growth->replaced, kNoPage))),
              "a page was released twice");
    }
  }
  uncount_passed();
  land();
  for (const PassEntry& entry : landed) {
    Sequence* s = entry.sequence;
    s->in_flight = false;
    s->own_page = -1;
    if (s->request == nullptr) {
      give_back_pages(s);
      destroy(s);
    } else if (entry.admitted) {
      stop_running(s);
      give_back_pages(s);
      waiting.insert(s);
    }
  }
}

}  // namespace quire
