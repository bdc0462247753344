#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include <quire/engine_options.h>
#include <quire/export.h>
#include <quire/model_source.h>
#include <quire/request.h>
#include <quire/status.h>
#include <quire/token_event.h>
#include <quire/tokenizer.h>

namespace quire {

// What opening a model would take, from the file's header alone.
struct Estimate {
  std::size_t weight_bytes = 0;     // resident after loading
  std::size_t load_peak_bytes = 0;  // weights while loading (both copies count), + the rest
  std::size_t scratch_bytes = 0;    // activations, logits
  std::size_t kv_bytes_per_token = 0;
  std::size_t kv_bytes = 0;  // reserved for keys and values
  int max_tokens = 0;        // tokens of all sequences that fit kv_bytes
  int context = 0;           // most tokens of one sequence
};

// Limits of one call of `step`; 0 means no limit. Without both, a step is one whole pass.
struct StepLimits {
  std::chrono::nanoseconds time{0};  // return at the first operation boundary after it
  int tokens = 0;                    // compute at most this many tokens in the pass
  // Lets a GPU begin the next pass, if it only carries on running answers, before the tokens of
  // this one are read: it goes on computing when `step` has returned, and has no pause between
  // passes. A request that comes meanwhile waits for that pass too. Without effect together with
  // other limits.
  bool run_ahead = false;
};

// What one call of `step` did.
struct StepReport {
  // Of the passes completed by this call; also of answers that ended while a pass was run ahead.
  int decode_tokens = 0;
  int prefill_tokens = 0;
  int sequences = 0;  // in the pass
  double seconds = 0;
  bool cut = false;  // stopped by the time limit inside a pass; the next step goes on
  int pages_free = 0;
  int pages_in_use = 0;
  int pages_cached = 0;  // kept by the prefix cache, used by no sequence
};

struct EngineStats {
  std::size_t memory_bytes = 0;  // in use: weights, KV, scratch
  std::size_t peak_memory_bytes = 0;
  std::size_t kv_bytes = 0;
  std::size_t kv_bytes_in_use = 0;  // of pages that running sequences hold
  std::size_t kv_bytes_needed = 0;  // of the tokens that they still see; shared ones for each
  int waiting = 0;                  // requests
  int running = 0;                  // sequences
  int page_size = 0;
  int pages_free = 0, pages_in_use = 0, pages_cached = 0, pages_total = 0;
  long long prefix_queries = 0, prefix_hit_tokens = 0;
  long long preemptions = 0;
  double load_seconds = 0;
  int threads = 0;
  std::string device;  // with the instruction set chosen, such as "cpu:avx512"
};

// A model and everything it needs to answer many requests at once. Movable; owns all it uses; two
// engines share nothing. Nothing runs unless the host calls `step` (or `generate`).
//
// Threads: `submit`, `cancel` and `has_work` may be called from any thread at any time; everything
// else from one thread at a time. Errors: only through Status; nothing throws, aborts or exits.
class QUIRE_EXPORT Engine {
 public:
  static Result<Engine> open(const ModelSource& source, const EngineOptions& options = {});
  static Result<Estimate> estimate(const ModelSource& source, const EngineOptions& options = {});

  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Queues a request. Refused at once if its parameters are wrong, if prompt + max_tokens can never
  // fit the context, if n of them can never fit the pages, or if the queue is full. An accepted
  // request ends with exactly one last event for each choice and none after it.
  Result<RequestId> submit(Request request);

  // Ends a request. True if it was live: then this call is its end, and no event of it is delivered
  // any more. Its pages are free once the passes in flight, if any, have ended.
  bool cancel(RequestId id);

  // Plans and computes one pass (or goes on with one that a time limit cut). With nothing to do it
  // returns at once. A failed step has ended the requests it concerned with an `error` event.
  Result<StepReport> step(const StepLimits& limits = {});

  // The events since the last call, in order; none of a request that was cancelled.
  std::vector<TokenEvent> events();

  // True while a request is queued, running, or has events that `events` did not return yet.
  bool has_work() const;

  // Submits, steps to the end and collects. For an engine with no other work: refused otherwise.
  Result<Generation> generate(Request request);

  const Tokenizer& tokenizer() const;
  EngineStats stats() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
