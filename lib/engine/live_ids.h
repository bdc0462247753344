#pragma once

#include <mutex>
#include <set>
#include <utility>

#include <quire/request.h>

namespace quire {

// Which requests are live: accepted, and the last event not yet handed out. Thread-safe. Only `add`
// needs memory, so that a request can be cancelled and can end when there is none.
class LiveIds {
 public:
  void add(RequestId id) {
    const std::lock_guard lock(mutex_);
    live_.insert(id);
  }
  // It has ended. False if it was not live.
  bool end(RequestId id) {
    const std::lock_guard lock(mutex_);
    return live_.erase(id) != 0;
  }
  // From now on it is not live, and `take_cancelled` tells. False if it was not live.
  bool cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    auto node = live_.extract(id);
    if (node.empty()) return false;
    cancelled_.insert(std::move(node));
    return true;
  }
  // Those that `cancel` ended since the last call.
  std::set<RequestId> take_cancelled() {
    std::set<RequestId> taken;
    const std::lock_guard lock(mutex_);
    taken.swap(cancelled_);
    return taken;
  }

  bool contains(RequestId id) const {
    const std::lock_guard lock(mutex_);
    return live_.count(id) != 0;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return live_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::set<RequestId> live_, cancelled_;
};

}  // namespace quire
