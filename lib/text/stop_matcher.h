#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quire::text {

// Finds stop strings in a stream of text, across deltas. The match that starts earliest wins; of
// two that start together, the shorter (it is complete first). Text that could still become a stop
// is held back. Time per byte does not depend on the text (Aho-Corasick, amortised); memory is
// proportional to the length of the stops. Stops and text may hold any bytes; an empty stop never
// matches.
class StopMatcher {
 public:
  explicit StopMatcher(const std::vector<std::string>& stops);

  struct Output {
    std::string text;                 // to deliver now
    std::optional<std::string> stop;  // matched: the stream has ended
  };
  Output feed(std::string_view text);
  // The end of the stream: what was held back. It can still hold a stop: one whose match waited for
  // a longer one that started before it.
  Output finish();

 private:
  struct State {
    int fallback = 0;  // the state of the longest proper suffix that is a prefix of a stop
    int depth = 0;     // bytes of the prefix that this state stands for
    int longest = -1;  // index of the longest stop that ends here, or -1
  };
  struct Match {
    std::uint64_t start;  // bytes since the start of the stream
    int stop;
  };
  int child(int state, unsigned char byte) const;  // or -1
  int advance(int state, unsigned char byte) const;
  void add(const std::string& stop, int index);
  void link();
  std::string take_until(std::uint64_t position);
  Output end_at(const Match& match);

  std::vector<std::string> stops_;
  std::vector<State> states_;                     // [0] is the root
  std::unordered_map<std::uint64_t, int> edges_;  // state * 256 + byte -> child
  int state_ = 0;
  std::uint64_t position_ = 0;    // bytes fed
  std::string held_;              // the last bytes fed, not yet delivered
  std::optional<Match> pending_;  // the best match so far; a longer one may start before it
  bool ended_ = false;
};

}  // namespace quire::text
