#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <quire/request.h>

#include "batching/batcher.h"
#include "paging/page_table.h"
#include "prefix/page_key.h"
#include "prefix/prefix_cache.h"

namespace quire {

struct Sequence;

// A request from `add` until its last choice has ended.
struct LiveRequest {
  BatchRequest spec;  // the prompt moves into the first sequence
  int prompt_tokens = 0;
  std::uint64_t arrival = 0;  // counts requests
  std::string cache_name;
  std::vector<Sequence*> choices;  // [n]; before the fork only the first; null: not there
  int live_choices = 0;            // choices that have not ended
  bool forked = false;             // the first tokens of all choices have been drawn
  int prompt_logits_done = 0;      // prompt rows whose logits were committed
  int cached_tokens = -1;          // of the first admission; -1: not yet

  double added_at = 0;
  double first_pass_at = -1;  // -1: not yet
  double first_token_at = -1;
  int generated_tokens = 0;
  int preemptions = 0;
  int bypasses = 0;
};

// One running continuation, or (before the fork) the prompt of all n of them. Its pages cover the
// first `computed` tokens at least; when it waits it has none.
struct Sequence {
  std::uint64_t id = 0;
  LiveRequest* request = nullptr;  // null: cancelled while a pass is in flight
  int choice = 0;
  int priority = 0;
  int urgency = 0;  // priority, or more while a more urgent request waits for its pages
  std::uint64_t arrival = 0;

  std::vector<std::int32_t> tokens;  // prompt, then output
  int computed = 0;                  // tokens whose keys and values are committed
  bool answering = false;            // past its prompt: decodes
  bool running = false;
  bool in_flight = false;  // part of the pass between plan and commit
  bool ahead = false;      // part of the pass planned ahead; without a request: only that holds it
  int passed = 0;          // later requests admitted before it since it waits

  std::vector<PageTable> tables;  // [group]
  int own_page = -1;              // entry that it has grown into: nobody else reads it meanwhile
  PageKeys keys;
  CacheNode tip = kNoNode;  // pinned: what the next page is published under
  int published = 0;        // whole pages in the cache or found there
  bool publishes = false;
  int producing_end = 0;  // pages [published, producing_end) are promised to waiting siblings
  int slots = 1;          // of max_running: n before the fork
  int headroom = 0;       // pages of each group kept free for its first growth

  // What the cache held when it was last looked up; valid for one version of the cache.
  std::uint64_t looked_up_at = ~std::uint64_t{0};
  int found_tokens = 0;
  int known_pages = 0;

  int size() const { return static_cast<int>(tokens.size()); }
};

// More urgent first, then earlier; within one request by choice.
struct MoreUrgent {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->urgency != b->urgency) return a->urgency > b->urgency;
    if (a->arrival != b->arrival) return a->arrival < b->arrival;
    return a->choice < b->choice;
  }
};

// Sequences in the order of MoreUrgent. Only `reserve` takes memory: `insert` needs what it took.
class SequenceList {
 public:
  void reserve(std::size_t count) {
    if (count > list_.capacity()) list_.reserve(std::max(count, 2 * list_.capacity()));
  }
  void insert(Sequence* s) {
    list_.insert(std::upper_bound(list_.begin(), list_.end(), s, MoreUrgent()), s);
  }
  // False if it is not where it belongs.
  bool erase(Sequence* s) {
    const auto place = std::lower_bound(list_.begin(), list_.end(), s, MoreUrgent());
    if (place == list_.end() || *place != s) return false;
    list_.erase(place);
    return true;
  }
  void clear() { list_.clear(); }

  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  Sequence* operator[](std::size_t i) const { return list_[i]; }
  Sequence* front() const { return list_.front(); }
  Sequence* back() const { return list_.back(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  std::vector<Sequence*> list_;
};

}  // namespace quire
