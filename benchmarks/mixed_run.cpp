#include "mixed_run.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "random_tokens.h"
#include "support/statistics.h"

namespace {

using examples::Json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Progress {
  Clock::time_point submitted, first, last;
  int tokens = 0;
  bool finished = false;
};

class MixedRun {
 public:
  MixedRun(quire::Engine& engine, const MixedShape& shape) : engine_(engine), shape_(shape) {}

  quire::Status operator()() {
    begin_ = Clock::now();
    if (quire::Status status = submit_all(); !status) return status;
    while (engine_.has_work()) {
      const Clock::time_point step_begin = Clock::now();
      const quire::Result<quire::StepReport> step = engine_.step({.run_ahead = true});
      const double taken = seconds_since(step_begin);
      for (const quire::TokenEvent& event : engine_.events()) {
        if (event.finish_reason == quire::FinishReason::error) return event.status;
        hear(event);
      }
      if (!step) return step.status();
      count(*step, taken);
    }
    wall_seconds_ = seconds_since(begin_);
    return {};
  }

  Json result() const {
    std::vector<double> first, between;
    int generated = 0;
    for (const auto& [id, progress] : progress_) {
      generated += progress.tokens;
      first.push_back(std::chrono::duration<double>(progress.first - progress.submitted).count());
      if (progress.tokens < 2) continue;
      between.push_back(std::chrono::duration<double>(progress.last - progress.first).count() /
                        (progress.tokens - 1));
    }
    return {
        {"concurrency", shape_.requests},
        {"wall_s", wall_seconds_},
        {"prompt_tokens", shape_.requests * shape_.prompt_tokens},
        {"cached_tokens", cached_tokens_},
        {"generated_tokens", generated},
        {"prefill_tokens_per_s", rate(prefill_tokens_, prefill_seconds_)},
        {"decode_tokens_per_s", rate(decode_tokens_, decode_seconds_)},
        {"output_tokens_per_s", rate(generated, wall_seconds_)},
        {"ttft_s", percentiles(first)},
        {"tpot_s", percentiles(between)},
        {"kv_allocated_over_used", kv_samples_ == 0 ? Json(nullptr) : Json(kv_sum_ / kv_samples_)},
        {"kv_pages_peak", pages_peak_},
        {"preemptions", preemptions_}};
  }

 private:
  quire::Status submit_all() {
    std::mt19937_64 random(20240607 + static_cast<std::uint64_t>(shape_.requests));
    const auto prefix = random_tokens(engine_, random, shape_.shared_prefix);
    random.seed(20240607 + 1000003 * shape_.run + static_cast<std::uint64_t>(shape_.requests));
    for (int i = 0; i < shape_.requests; ++i) {
      quire::Request request;
      request.tokens = prefix;
      const auto rest = random_tokens(engine_, random, shape_.prompt_tokens - shape_.shared_prefix);
      request.tokens.insert(request.tokens.end(), rest.begin(), rest.end());
      request.max_tokens = shape_.generated_tokens;
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      const Clock::time_point now = Clock::now();
      const quire::Result<quire::RequestId> id = engine_.submit(std::move(request));
      if (!id) return id.status();
      progress_[*id].submitted = now;
    }
    return {};
  }

  void hear(const quire::TokenEvent& event) {
    Progress& progress = progress_[event.request];
    if (!event.tokens.empty()) {
      progress.last = Clock::now();
      if (progress.tokens == 0) progress.first = progress.last;
      progress.tokens += static_cast<int>(event.tokens.size());
    }
    progress.finished = progress.finished || event.finished;
    if (!event.report) return;
    cached_tokens_ += event.report->cached_tokens;
    preemptions_ += event.report->preemptions;
  }

  void count(const quire::StepReport& step, double seconds) {
    pages_peak_ = std::max(pages_peak_, step.pages_in_use);
    if (step.prefill_tokens > 0) {
      prefill_tokens_ += step.prefill_tokens;
      prefill_seconds_ += seconds;
      return;
    }
    decode_tokens_ += step.decode_tokens;
    decode_seconds_ += seconds;
    const quire::EngineStats stats = engine_.stats();
    if (stats.kv_bytes_needed == 0) return;
    ++kv_samples_;
    kv_sum_ += static_cast<double>(stats.kv_bytes_in_use) / stats.kv_bytes_needed;
  }

  static double rate(std::int64_t tokens, double seconds) {
    return seconds > 0 ? tokens / seconds : 0;
  }

  static Json percentiles(const std::vector<double>& values) {
    return {{"p50", examples::percentile(values, 0.5)},
            {"p95", examples::percentile(values, 0.95)},
            {"p99", examples::percentile(values, 0.99)}};
  }

  quire::Engine& engine_;
  const MixedShape& shape_;
  Clock::time_point begin_;
  double wall_seconds_ = 0;
  std::map<quire::RequestId, Progress> progress_;
  std::int64_t prefill_tokens_ = 0, decode_tokens_ = 0, cached_tokens_ = 0, preemptions_ = 0;
  double prefill_seconds_ = 0, decode_seconds_ = 0;
  int pages_peak_ = 0, kv_samples_ = 0;
  double kv_sum_ = 0;
};

}  // namespace

quire::Result<examples::Json> measure_mixed(quire::Engine& engine, const MixedShape& shape) {
  MixedRun run(engine, shape);
  if (quire::Status status = run(); !status) return status;
  return run.result();
}
