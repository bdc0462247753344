#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace quire::text {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) : stops_(stops), states_(1) {
  for (std::size_t i = 0; i < stops_.size(); ++i) add(stops_[i], static_cast<int>(i));
  link();
}

int StopMatcher::child(int state, unsigned char byte) const {
  const auto found = edges_.find(static_cast<std::uint64_t>(state) * 256 + byte);
  return found == edges_.end() ? -1 : found->second;
}

int StopMatcher::advance(int state, unsigned char byte) const {
  for (;;) {
    const int next = child(state, byte);
    if (next >= 0) return next;
    if (state == 0) return 0;
    state = states_[state].fallback;
  }
}

void StopMatcher::add(const std::string& stop, int index) {
  if (stop.empty()) return;
  int state = 0;
  for (const char c : stop) {
    const auto byte = static_cast<unsigned char>(c);
    int next = child(state, byte);
    if (next < 0) {
      next = static_cast<int>(states_.size());
      edges_.emplace(static_cast<std::uint64_t>(state) * 256 + byte, next);
      states_.push_back({0, states_[state].depth + 1, -1});
    }
    state = next;
  }
  if (states_[state].longest < 0) states_[state].longest = index;
}

void StopMatcher::link() {
  // Breadth first: a fallback is shallower than its state, so it is linked before.
  struct Edge {
    int depth, parent, child;
    unsigned char byte;
  };
  std::vector<Edge> order;
  order.reserve(edges_.size());
  for (const auto& [key, next] : edges_) {
    order.push_back({states_[next].depth, static_cast<int>(key / 256), next,
                     static_cast<unsigned char>(key % 256)});
  }
  std::sort(order.begin(), order.end(),
            [](const Edge& a, const Edge& b) { return a.depth < b.depth; });
  for (const Edge& edge : order) {
    State& state = states_[edge.child];
    if (edge.parent != 0) state.fallback = advance(states_[edge.parent].fallback, edge.byte);
    if (state.longest < 0) state.longest = states_[state.fallback].longest;
  }
}

std::string StopMatcher::take_until(std::uint64_t position) {
  const std::uint64_t held_from = position_ - held_.size();
  const auto count = static_cast<std::size_t>(position > held_from ? position - held_from : 0);
  std::string taken = held_.substr(0, count);
  held_.erase(0, count);
  return taken;
}

StopMatcher::Output StopMatcher::end_at(const Match& match) {
  Output output{take_until(match.start), stops_[match.stop]};
  held_.clear();
  ended_ = true;
  return output;
}

StopMatcher::Output StopMatcher::feed(std::string_view text) {
  if (ended_) return {};
  for (const char c : text) {
    held_ += c;
    ++position_;
    state_ = advance(state_, static_cast<unsigned char>(c));
    const State& state = states_[state_];
    if (state.longest >= 0) {
      const std::uint64_t start = position_ - stops_[state.longest].size();
      if (!pending_ || start < pending_->start) pending_ = Match{start, state.longest};
    }
    if (pending_ && position_ - state.depth >= pending_->start) return end_at(*pending_);
  }
  return {take_until(position_ - states_[state_].depth), std::nullopt};
}

StopMatcher::Output StopMatcher::finish() {
  if (ended_) return {};
  if (pending_) return end_at(*pending_);
  ended_ = true;
  return {std::exchange(held_, {}), std::nullopt};
}

}  // namespace quire::text
