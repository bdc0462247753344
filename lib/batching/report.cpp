#include <algorithm>

#include "batching/batcher_impl.h"

namespace quire {

bool Batcher::has_request(RequestId id) const {
  return impl_->requests.contains(id);
}
int Batcher::waiting() const {
  return static_cast<int>(impl_->waiting.size());
}
int Batcher::running() const {
  return static_cast<int>(impl_->running.size());
}

const std::vector<std::int32_t>* Batcher::tokens(RequestId id, int choice) const {
  const auto found = impl_->requests.find(id);
  if (found == impl_->requests.end() || choice < 0) return nullptr;
  const LiveRequest& request = *found->second;
  if (static_cast<std::size_t>(choice) >= request.choices.size()) return nullptr;
  const Sequence* s = request.choices[request.forked ? static_cast<std::size_t>(choice) : 0];
  return s == nullptr ? nullptr : &s->tokens;
}

RequestReport Batcher::Impl::make_report(const LiveRequest& r, double at) const {
  RequestReport report;
  report.prompt_tokens = r.prompt_tokens;
  report.cached_tokens = std::max(0, r.cached_tokens);
  report.generated_tokens = r.generated_tokens;
  report.preemptions = r.preemptions;
  report.bypasses = r.bypasses;
  if (r.first_pass_at < 0) return report;
  report.queued_seconds = r.first_pass_at - r.added_at;
  if (r.first_token_at < 0) return report;
  report.prefill_seconds = r.first_token_at - r.first_pass_at;
  report.first_token_seconds = r.first_token_at - r.added_at;
  report.decode_seconds = at - r.first_token_at;
  return report;
}

RequestReport Batcher::report(RequestId id, double now) const {
  if (const auto live = impl_->requests.find(id); live != impl_->requests.end()) {
    return impl_->make_report(*live->second, now);
  }
  const auto ended = std::find_if(impl_->retired.begin(), impl_->retired.end(),
                                  [id](const auto& entry) { return entry.first == id; });
  return ended == impl_->retired.end() ? RequestReport{} : ended->second;
}

PageCounts Batcher::pages() const {
  PageCounts counts;
  for (int g = 0; g < static_cast<int>(impl_->groups()); ++g) {
    const PageCounts of_group = pages(g);
    counts.free += of_group.free;
    counts.in_use += of_group.in_use;
    counts.cached += of_group.cached;
    counts.total += of_group.total;
  }
  return counts;
}

PageCounts Batcher::pages(int group) const {
  const PageAllocator& a = impl_->allocator(group);
  return {a.free_count(), a.in_use_count(), a.idle_count(), a.page_count()};
}

long long Batcher::visible_tokens(int group) const {
  const int window = impl_->options.windows[static_cast<std::size_t>(group)];
  long long tokens = 0;
  for (const Sequence* s : impl_->running) {
    tokens += window == 0 ? s->computed : std::min(s->computed, window - 1);
  }
  return tokens;
}

long long Batcher::preemptions() const {
  return impl_->preemption_count;
}
long long Batcher::prefix_queries() const {
  return impl_->query_count;
}
long long Batcher::prefix_hit_tokens() const {
  return impl_->hit_token_count;
}

}  // namespace quire
