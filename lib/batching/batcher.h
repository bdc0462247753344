#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <quire/request.h>
#include <quire/status.h>
#include <quire/token_event.h>

#include "batching/plan.h"
#include "device/kv_cache.h"

namespace quire {

struct BatcherOptions {
  int page_size = 16;
  std::vector<int> windows;      // of each KV group; 0: all tokens. At least one group
  std::vector<int> page_counts;  // of each KV group, as many as windows
  int context = 0;               // most tokens of a sequence
  int max_running = 64;
  int max_step_tokens = 512;
  int max_bypasses = 8;
  bool prefix_cache = true;
  std::string cache_namespace;  // model, KV type, RoPE choice rule ...: part of every page's key
};

// A request as the batcher sees it: tokens and limits, no text.
struct BatchRequest {
  RequestId id = 0;
  std::vector<std::int32_t> prompt;  // at least one token
  int max_tokens = 0;                // most new tokens of each choice; may be 0 with prompt_logits
  int n = 1;
  int priority = 0;
  std::string tenant;
  bool use_prefix_cache = true;
  bool prompt_logits = false;  // reads no cache, lists every prompt row but the last
  int rope_choice = 0;         // 0 short, 1 long: part of the cache namespace
};

struct PlanLimits {
  int max_tokens = 0;  // of the pass; at most max_step_tokens; 0: max_step_tokens
  int max_chunk = 0;   // prompt tokens while answers run; 0: no limit beyond max_tokens
};

// What the engine decided about one draw of a plan, in the order of Plan::draws.
struct DrawOutcome {
  std::int32_t token = 0;
  bool append = true;   // the token joins the sequence (an end token may or may not); false ends it
  bool finish = false;  // this choice has ended
};

// Pages by state, of one group or added over groups.
struct PageCounts {
  int free = 0;
  int in_use = 0;  // referenced by a sequence
  int cached = 0;  // held only by the prefix cache
  int total = 0;
};

// Iteration-level batching (ORCA, OSDI 2022) with chunked prefill over paged KV memory
// (PagedAttention, SOSP 2023) and the prefix cache. Deterministic: reads no clock (`now` is in
// seconds on any steady scale), starts no thread. Not thread-safe; the engine feeds it from its
// request queue.
//
// A plan is a transaction: pages are reserved by `plan`, and `commit` or `fail` must follow before
// the next plan. Nothing is published to the prefix cache before commit. One more plan may be made
// ahead, on top of the pass in flight: a device that computes passes in their order can begin it
// before the tokens that it goes on from are known here.
//
// Out of memory: `add`, `plan` and `can_ever_fit` may throw std::bad_alloc, the rest
// does not. Every request is there as before; after a `plan` that threw, all pages are free,
// nothing is cached, and what ran is computed again.
class Batcher {
 public:
  explicit Batcher(const BatcherOptions& options);
  ~Batcher();
  Batcher(Batcher&&) noexcept;
  Batcher& operator=(Batcher&&) noexcept;

  // ok if the request can be served when alone: prompt + max_tokens within the context, and the
  // pages of all n choices within the pool; else resource_exhausted with both numbers.
  Status can_ever_fit(const BatchRequest& request) const;

  // Queues a request that can_ever_fit accepts. An id that is in use already is ignored.
  void add(BatchRequest request, double now);

  // Forgets a request, queued or running. True if it was there. Pages of a pass in flight are given
  // back at its commit or fail, all others at once.
  bool cancel(RequestId id);

  // The next pass; an empty plan if nothing can or need be computed. Never stalls while there is a
  // live request: admits, evicts cached pages, preempts (newest of the lowest priority).
  Plan plan(const PlanLimits& limits, double now);

  // While a plan is in flight: the pass after it, in which every running answer goes on by the
  // token that the pass in flight draws for it (Plan::token_draws). Empty if that pass does not
  // give one token to each running sequence, if something waits that could join, or if there are no
  // free pages for it; then `plan` follows the commit. After the commit of the pass in flight this
  // one is in flight, to be committed or failed in its turn; draws of answers that have ended by
  // then change nothing.
  Plan plan_ahead(double now);

  // The pass was computed. Appends tokens, publishes full pages, retires finished choices, frees
  // pages behind windows. `outcomes` has one entry for each draw of the plan, also of requests that
  // were cancelled meanwhile. A choice ends at max_tokens in any case; a request with max_tokens 0
  // ends, without a draw, when its prompt is computed. Plans that are empty or not the last are
  // ignored. A request with n > 1 for whose answers there is no memory is dropped: `has_request`
  // tells.
  void commit(const Plan& plan, std::span<const DrawOutcome> outcomes, double now);

  // The pass failed: publishes nothing and keeps none of its pages; its requests are planned again.
  // The same goes for a plan made ahead of it; that one may also fail alone.
  void fail(const Plan& plan);

  bool has_request(RequestId id) const;
  int waiting() const;  // queued requests, and answers that were preempted
  int running() const;  // sequences
  // Tokens of a choice so far (prompt, then output), valid until the next call; null when unknown
  // or retired.
  const std::vector<std::int32_t>* tokens(RequestId id, int choice) const;
  // Counts and times so far; times that have not come yet are 0. Of a request that ended or was
  // cancelled: as of then, until the next plan.
  RequestReport report(RequestId id, double now) const;
  PageCounts pages() const;
  PageCounts pages(int group) const;
  // Tokens that running sequences have keys and values of and still see, in one group: what its
  // pages are in use for. A token of a shared page counts once for each sequence.
  long long visible_tokens(int group) const;
  long long preemptions() const;
  long long prefix_queries() const;
  long long prefix_hit_tokens() const;

  // Drops every cached page that no sequence uses.
  void clear_cache();

  // Internal checks: page sums, reference counts against the tables, nothing shared in a write set,
  // hashes against their tokens. For tests and debug builds; the first broken invariant in words.
  Status check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
