#include <quire/engine.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/engine_impl.h"
#include "engine/generation_builder.h"

namespace quire {

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::end:
      return "end";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
  }
  return "unknown";
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(const ModelSource& source, const EngineOptions& options) {
  return guarded("Engine::open", [&]() -> Result<Engine> {
    auto impl = Impl::open(source, options);
    if (!impl) return impl.status();
    return Engine(std::move(*impl));
  });
}

Result<RequestId> Engine::submit(Request request) {
  return guarded("Engine::submit", [&] { return impl_->submit(std::move(request)); });
}

bool Engine::cancel(RequestId id) {
  bool live = false;
  (void)guarded("Engine::cancel", [&] {
    live = impl_->cancel(id);
    return Status();
  });
  return live;
}

Result<StepReport> Engine::step(const StepLimits& limits) {
  return guarded("Engine::step", [&] { return impl_->step(limits); });
}

std::vector<TokenEvent> Engine::events() {
  std::vector<TokenEvent> events;
  // Without memory for the list the events stay, for the next call.
  (void)guarded("Engine::events", [&] {
    events = impl_->take_events();
    return Status();
  });
  return events;
}

bool Engine::has_work() const {
  return !impl_->ids.empty();
}

Result<Generation> Engine::generate(Request request) {
  return guarded("Engine::generate", [&]() -> Result<Generation> {
    if (has_work()) {
      return Status(StatusCode::invalid_argument,
                    "generate: the engine has other work; use submit, step and events");
    }
    const auto n = static_cast<std::size_t>(request.n > 0 ? request.n : 1);
    auto id = impl_->submit(std::move(request));
    if (!id) return id.status();
    // Whatever happens, the request does not outlive this call.
    struct Ending {
      Impl& impl;
      RequestId id;
      ~Ending() {
        (void)guarded("Engine::generate", [&] {
          impl.cancel(id);
          return Status();
        });
      }
    } ending{*impl_, *id};

    GenerationBuilder builder(n);
    while (impl_->ids.contains(*id)) {
      auto report = step();  // a failed step plans the request again, or has ended it
      const bool lost = !report.ok() && report.status().code() == StatusCode::internal;
      for (TokenEvent& event : impl_->take_events(*id)) builder.add(std::move(event));
      if (lost && impl_->ids.contains(*id)) return report.status();
    }
    return builder.finish();
  });
}

const Tokenizer& Engine::tokenizer() const {
  return *impl_->tokenizer;
}

EngineStats Engine::stats() const {
  EngineStats stats;
  const Impl& impl = *impl_;
  stats.kv_bytes = impl.memory.estimate.kv_bytes;
  stats.memory_bytes = impl.model->bytes() + impl.memory.estimate.scratch_bytes + stats.kv_bytes;
  stats.peak_memory_bytes = std::max(stats.memory_bytes, impl.memory.estimate.load_peak_bytes);
  stats.waiting = impl.batcher->waiting();
  stats.running = impl.batcher->running();
  stats.page_size = impl.memory.limits.page_size;
  const PageCounts pages = impl.batcher->pages();
  stats.pages_free = pages.free;
  stats.pages_in_use = pages.in_use;
  stats.pages_cached = pages.cached;
  stats.pages_total = pages.total;
  for (std::size_t g = 0; g < impl.memory.page_bytes.size(); ++g) {
    const std::size_t page_bytes = impl.memory.page_bytes[g];
    const int group = static_cast<int>(g);
    stats.kv_bytes_in_use +=
        page_bytes * static_cast<std::size_t>(impl.batcher->pages(group).in_use);
    stats.kv_bytes_needed += page_bytes *
                             static_cast<std::size_t>(impl.batcher->visible_tokens(group)) /
                             static_cast<std::size_t>(stats.page_size);
  }
  stats.prefix_queries = impl.batcher->prefix_queries();
  stats.prefix_hit_tokens = impl.batcher->prefix_hit_tokens();
  stats.preemptions = impl.batcher->preemptions();
  stats.load_seconds = impl.load_seconds;
  stats.threads = impl.device->threads();
  (void)guarded("Engine::stats", [&] {
    stats.device = impl.device->name();
    return Status();
  });
  return stats;
}

}  // namespace quire
