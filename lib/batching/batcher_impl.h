#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "batching/batcher.h"
#include "batching/sequence.h"

namespace quire {

// A page table entry that a plan made or changed; undone if the pass fails.
struct Growth {
  Sequence* sequence = nullptr;
  int group = 0;
  int index = 0;
  PageId replaced = kNoPage;  // the shared page a copy stands in for, its reference kept; or none
};

struct PassEntry {
  Sequence* sequence = nullptr;
  int tokens = 0;
  int end = 0;  // the sequence's computed tokens after the pass
  int draws = 0;
  bool admitted = false;  // by this plan: a failure sends it back to the queue
  int found_tokens = 0;   // in the cache, at this admission
};

// Everything between plan and commit.
struct Flight {
  std::uint64_t serial = 0;  // 0: none
  std::vector<PassEntry> entries;
  std::vector<Growth> growth;
  std::vector<PageCopy> sources;      // cached pages that are copied from, each with a reference
  std::vector<std::uint64_t> passed;  // waiting sequences that an admission of this plan passed
  long long queries = 0;
  long long hit_tokens = 0;

  // Keeps its memory: the next pass is about as large.
  void clear() {
    serial = 0;
    entries.clear();
    growth.clear();
    sources.clear();
    passed.clear();
    queries = hit_tokens = 0;
  }
};

// The parts of the batcher, by file: batcher.cpp plans and keeps the books, admission.cpp chooses
// and admits waiting sequences, growth.cpp finds pages for running ones and preempts, outcome.cpp
// commits, ahead.cpp plans on top of a pass in flight, recover.cpp repairs, fit.cpp computes what
// can ever fit, report.cpp answers questions, batcher_check.cpp checks.
struct Batcher::Impl {
  explicit Impl(const BatcherOptions& options);

  // batcher.cpp
  Plan make_plan(const PlanLimits& limits);
  void plan_decodes(Plan* plan, int* budget);
  void plan_prompts(Plan* plan, int* budget);
  void add_rows(Plan* plan, const Sequence* s, int position, int count, bool decode);
  void add_slice(Plan* plan, Sequence* s, int count);
  void plan_draws(Plan* plan, Sequence* s, int last_row);
  void start_running(Sequence* s);
  void stop_running(Sequence* s);
  void set_urgency(Sequence* s, int urgency);
  void give_back_pages(Sequence* s);  // to the state of a waiting sequence
  void destroy(Sequence* s);
  void leave_queue(Sequence* s);  // neither runs nor waits any more
  void make_room();               // in the lists, for one more request and sequence

  // admission.cpp
  Sequence* choose_waiting(bool may_pass);
  bool admit(Sequence* s, Plan* plan);
  bool reserve_prompt(Sequence* s, const PrefixMatch& match, Plan* plan);
  void count_passed(const Sequence* s);
  bool waits_for_sibling(Sequence* s);
  void look_up(Sequence* s);
  int match_limit(const Sequence& s) const;
  bool reads_cache(const Sequence& s) const;
  int reserved_pages(int group, int found_tokens, int total) const;
  int room(int group, int headroom) const;
  void promise_pages(Sequence* s);
  void unpromise_pages(Sequence* s, int first, int end);

  // growth.cpp
  bool grow(Sequence* s, Plan* plan);       // false: it had to give way itself
  int grow_prompt(Sequence* s, int count);  // how many of `count` tokens have their pages
  PageId take_page_behind(const Sequence* s,
                          int group);            // from what is less urgent and not planned
  PageId take_page(int group);                   // free, or by eviction; kNoPage if neither
  PageId take_page_for(Sequence* s, int group);  // ... or by preemption
  bool must_copy(int group, PageId page) const;
  void preempt(Sequence* s);
  void release_behind_windows(Sequence* s);
  int first_needed_page(int group, int position) const;

  // outcome.cpp
  void commit_entry(const PassEntry& entry, std::span<const DrawOutcome> outcomes);
  void publish_whole_pages(Sequence* s);
  void publish_tail(Sequence* s);
  void apply_draws(Sequence* s, std::span<const DrawOutcome> outcomes);
  void fork(Sequence* s, int choice, std::int32_t token);
  void end_choice(LiveRequest* request, int choice);
  void retire(Sequence* s);
  void land();  // gives back what only the pass held; its entries become `landed`
  void uncount_passed();
  void fail();

  // ahead.cpp
  bool can_plan_ahead() const;
  bool make_plan_ahead(Plan* plan);
  bool grow_ahead(Sequence* s, int position);
  void add_slice_ahead(Plan* plan, Sequence* s, int position, std::int32_t draw);
  void promote_ahead() noexcept;
  void drop_ahead() noexcept;
  void forget_ahead() noexcept;

  // recover.cpp
  void recover() noexcept;
  void abandon_plan() noexcept;
  template <class Body>
  void publish_if_memory_lasts(Body body);

  // report.cpp
  RequestReport make_report(const LiveRequest& request, double at) const;

  Status check() const;
  void require(bool ok, const char* what);

  std::size_t groups() const { return allocators.size(); }
  PageAllocator& allocator(int group) { return allocators[static_cast<std::size_t>(group)]; }
  int pages_for(int tokens) const { return (tokens + options.page_size - 1) / options.page_size; }

  BatcherOptions options;
  std::vector<PageAllocator> allocators;  // [group]
  PrefixCache cache;

  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> requests;
  std::unordered_map<std::uint64_t, std::unique_ptr<Sequence>> sequences;
  SequenceList running, waiting;                                   // with room for all sequences
  std::unordered_map<Digest, std::uint64_t, DigestHash> promised;  // page key -> producing sequence
  std::vector<std::pair<RequestId, RequestReport>> retired;        // since the last plan

  Flight flight;
  Flight ahead;  // on top of it; serial 0: none
  std::uint64_t last_serial = 0;
  std::uint64_t last_sequence = 0;
  std::uint64_t last_arrival = 0;
  std::vector<PassEntry> landed;    // entries of the flight that is committed or undone
  std::size_t last_page_count = 0;  // of the last plan: the next one needs about as many
  int used_slots = 0;               // of max_running
  int headroom = 0;        // pages of each group kept for the first growth of admitted sequences
  bool preempted = false;  // by the plan being made
  double now = 0;
  long long preemption_count = 0;
  long long query_count = 0;
  long long hit_token_count = 0;
  std::vector<PageId> page_buffer;  // scratch: one page of each group
  Status fault;                     // the first broken invariant met on the way
};

// Publishing serves later requests only: an answer does not end for want of the memory it takes.
template <class Body>
void Batcher::Impl::publish_if_memory_lasts(Body body) {
  try {
    body();
  } catch (...) {
    recover();
  }
}

}  // namespace quire
