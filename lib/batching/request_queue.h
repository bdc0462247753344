#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <quire/request.h>
#include <quire/status.h>

#include "base/error.h"

namespace quire {

// The only door for other threads into an engine. `Payload` is what the engine needs to start a
// request: any movable type. All functions are thread-safe, short, and never call out while they
// hold the lock; payloads are moved and destroyed outside it.
template <class Payload>
class RequestQueue {
 public:
  struct Entry {
    RequestId id = 0;
    Payload payload;
  };

  explicit RequestQueue(int max_queued)
      : max_queued_(max_queued > 0 ? static_cast<std::size_t>(max_queued) : 0) {}

  // Queues a request; resource_exhausted (and the payload is dropped) if max_queued already wait,
  // here and in the batcher together.
  Status push(RequestId id, Payload payload) {
    const std::lock_guard lock(mutex_);
    const std::size_t waiting = entries_.size() + waiting_elsewhere_;
    if (waiting >= max_queued_) {
      return error(StatusCode::resource_exhausted, "{} requests wait, at most {} may", waiting,
                   max_queued_);
    }
    entries_.push_back({id, std::move(payload)});
    return {};
  }

  // True if the request was still queued here: it is gone. Needs no memory.
  bool remove(RequestId id) {
    std::optional<Entry> removed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->id != id) continue;
      removed.emplace(std::move(*entry));
      entries_.erase(entry);
      return true;
    }
    return false;
  }

  // Takes everything, in the order of the pushes. Called by the thread that steps the engine. Needs
  // no memory.
  std::vector<Entry> drain() {
    std::vector<Entry> drained;
    const std::lock_guard lock(mutex_);
    drained.swap(entries_);
    return drained;
  }

  // How many requests wait behind this queue, in the batcher: part of max_queued.
  void set_waiting(int requests) {
    const std::lock_guard lock(mutex_);
    waiting_elsewhere_ = requests > 0 ? static_cast<std::size_t>(requests) : 0;
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return entries_.empty();
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  const std::size_t max_queued_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::size_t waiting_elsewhere_ = 0;
};

}  // namespace quire
