#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <quire/engine.h>

#include "batching/batcher.h"
#include "batching/request_queue.h"
#include "device/device.h"
#include "engine/accepted_request.h"
#include "engine/cost_model.h"
#include "engine/live_ids.h"
#include "engine/memory_plan.h"
#include "engine/tokenizer_impl.h"
#include "format/model_files.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace quire {

// A request on its way from `submit` to the thread that steps.
struct PendingRequest {
  BatchRequest batch;
  std::unique_ptr<AcceptedRequest> live;
};

// A pass between its plan and its commit.
struct PassInFlight {
  Plan plan;
  Status begin_status;
  // What each draw given to the decoder is for: a token of an answer (`index` into plan.draws), or
  // the log-probability of the prompt token at `index`.
  struct DrawPurpose {
    RequestId request = 0;
    bool of_prompt = false;
    int index = 0;
  };
  std::vector<DrawPurpose> purposes;
  std::vector<DrawResult> results;  // when it is computed
  double seconds = 0;               // computing so far
  double awaited_since = 0;         // when the device had all of it to do, and nothing before it
  bool lost = false;                // a result is not to be had: to be computed again
};

struct [[gnu::visibility("hidden")]] Engine::Impl {
  using Clock = std::chrono::steady_clock;

  // In the order in which they are made; destroyed in reverse.
  EngineOptions options;
  std::optional<format::ModelFiles> files;  // kept if weights are multiplied in place
  std::unique_ptr<Device> device;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<model::Decoder> decoder;
  std::optional<Tokenizer> tokenizer;
  const Tokenizer::Impl* text = nullptr;  // of `tokenizer`
  std::optional<Batcher> batcher;
  MemoryPlan memory;
  SamplingParams defaults;                // from generation_config
  std::vector<std::int32_t> padding_ids;  // rows of the head that are no token
  double load_seconds = 0;
  Clock::time_point epoch = Clock::now();

  // Shared with `submit` and `cancel` of other threads.
  RequestQueue<PendingRequest> queue;
  std::atomic<RequestId> next_id{1};
  LiveIds ids;

  // Of the thread that steps.
  std::unordered_map<RequestId, std::unique_ptr<AcceptedRequest>> live;
  std::optional<PassInFlight> pass;
  std::optional<PassInFlight> ahead;  // begun on top of it
  int passes_alone = 0;               // so many more are not begun ahead
  std::uint64_t failed_passes = 0;
  std::list<TokenEvent> outbox;
  CostModel costs;

  explicit Impl(const EngineOptions& o)
      : options(o), queue(o.scheduling.max_queued), costs(o.scheduling.mixed_pass_time) {}

  double now() const {
    return std::chrono::duration<double>(Clock::now() - epoch).count();
  }
  void log(LogLevel level, const std::string& message) const {
    if (options.log) options.log(level, message);
  }
  // open.cpp
  static Result<std::unique_ptr<Impl>> open(const ModelSource& source,
                                            const EngineOptions& options);
  // submit.cpp
  Result<RequestId> submit(Request request);
  bool cancel(RequestId id);
  // step.cpp
  Result<StepReport> step(const StepLimits& limits);
  // Of one request, if given: the others stay.
  std::vector<TokenEvent> take_events(std::optional<RequestId> only = {});

 private:
  // submit.cpp
  int most_tokens_that_fit(BatchRequest batch) const;
  Result<std::vector<std::int32_t>> encode_prompt(const Request& request) const;
  Result<std::unique_ptr<AcceptedRequest>> make_live(const Request& request,
                                                     std::vector<std::int32_t> prompt);
  // step.cpp
  void take_in() noexcept;
  void start(PendingRequest pending) noexcept;
  void forget(RequestId id) noexcept;
  AcceptedRequest* find(RequestId id);
  bool begin_pass(const StepLimits& limits);
  Status run_pass(const StepLimits& limits, double started, bool& cut);
  Status advance(const StepLimits& limits, double started, StepReport& report, bool& idle);
  void commit_pass(StepReport & report);
  void accept_results(std::vector<DrawResult> & results, std::vector<DrawOutcome> & outcomes);
  void end_pass() noexcept;
  void fail_pass(const Status& why) noexcept;
  void fail_request(AcceptedRequest & request, const Status& why) noexcept;
  // run_ahead.cpp
  bool may_begin_ahead(const StepLimits& limits);
  void begin_ahead();
  void drop_ahead() noexcept;
  Status await_pass(const StepLimits& limits, double started, bool& cut);
  void repeat_pass() noexcept;
  bool exceeds(const StepLimits& limits) const;
  void drop_pass() noexcept;
  // deliver.cpp
  DrawOutcome accept_draw(AcceptedRequest & request, int choice, DrawResult& result);
  void accept_prompt_result(AcceptedRequest & request, int position, DrawResult& result);
  void finish_choice(AcceptedRequest & request, int choice, FinishReason reason,
                     TokenEvent event) noexcept;
  void end_request_with_error(AcceptedRequest & request, const Status& why) noexcept;
  void finish_without_tokens(AcceptedRequest & request);
  RequestReport report_of(const AcceptedRequest& request) const;
};

}  // namespace quire
