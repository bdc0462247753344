#include "separate_phases.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "random_tokens.h"

namespace {

using Clock = std::chrono::steady_clock;

using Prompt = std::vector<std::int32_t>;

class PhaseRun {
 public:
  PhaseRun(quire::Engine& engine, const PhaseShape& shape) : engine_(engine), shape_(shape) {}

  quire::Result<PhaseSpeeds> operator()(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < shape_.sequences; ++i) {
      prompts_.push_back(random_tokens(engine_, random, shape_.prompt_tokens));
    }
    if (quire::Status status = prefill(); !status) return status;
    if (quire::Status status = decode(); !status) return status;
    return speeds_;
  }

 private:
  struct Pass {
    int prefill_tokens = 0;
    int decode_tokens = 0;
    double seconds = 0;
  };

  quire::Status prefill() {
    if (quire::Status status = submit_all(1); !status) return status;
    double tokens = 0, seconds = 0;
    while (engine_.has_work()) {
      const quire::Result<Pass> pass = timed_pass();
      if (!pass) return pass.status();
      tokens += pass->prefill_tokens;
      seconds += pass->seconds;
    }
    const double wanted = static_cast<double>(shape_.sequences) * shape_.prompt_tokens;
    // Of many random prompts some begin with the same token, which is then computed once.
    if (tokens > wanted || tokens < 0.999 * wanted) {
      return {quire::StatusCode::internal,
              std::to_string(tokens) + " prompt tokens computed, not " + std::to_string(wanted)};
    }
    speeds_.prefill = tokens / seconds;
    return {};
  }

  quire::Status decode() {
    const int room = longest_sequence(shape_) - shape_.prompt_tokens;
    if (quire::Status status = submit_all(room); !status) return status;
    int passes = 0;
    double early_tokens = 0, seconds = 0;
    while (passes < shape_.decode_tokens) {
      if (!engine_.has_work()) return too_short(passes);
      const quire::Result<Pass> pass = timed_pass();
      if (!pass) return pass.status();
      if (pass->prefill_tokens == 0 && pass->decode_tokens == shape_.sequences) {
        ++passes;
        seconds += pass->seconds;
      } else {
        early_tokens += pass->decode_tokens;
      }
    }
    speeds_.decode = static_cast<double>(shape_.sequences) * passes / seconds;
    speeds_.context = shape_.prompt_tokens + early_tokens / shape_.sequences;
    return end_all();
  }

  quire::Status submit_all(int max_tokens) {
    requests_.clear();
    for (const Prompt& prompt : prompts_) {
      quire::Request request;
      request.tokens = prompt;
      request.max_tokens = max_tokens;
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      const quire::Result<quire::RequestId> id = engine_.submit(std::move(request));
      if (!id) return id.status();
      requests_.push_back(*id);
    }
    return {};
  }

  quire::Result<Pass> timed_pass() {
    const Clock::time_point begin = Clock::now();
    const quire::Result<quire::StepReport> step = engine_.step({.run_ahead = true});
    const std::vector<quire::TokenEvent> events = engine_.events();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    for (const quire::TokenEvent& event : events) {
      if (event.finish_reason == quire::FinishReason::error) return event.status;
    }
    if (!step) return step.status();
    return Pass{step->prefill_tokens, step->decode_tokens, seconds};
  }

  quire::Status end_all() {
    for (const quire::RequestId id : requests_) engine_.cancel(id);
    while (engine_.has_work()) {
      if (const auto pass = timed_pass(); !pass) return pass.status();
    }
    return {};
  }

  quire::Status too_short(int passes) const {
    return {quire::StatusCode::internal, "all " + std::to_string(shape_.sequences) +
                                             " sequences ran together for " +
                                             std::to_string(passes) + " passes only, not " +
                                             std::to_string(shape_.decode_tokens)};
  }

  quire::Engine& engine_;
  const PhaseShape& shape_;
  std::vector<Prompt> prompts_;
  std::vector<quire::RequestId> requests_;
  PhaseSpeeds speeds_;
};

}  // namespace

int longest_sequence(const PhaseShape& shape) {
  // The prompt's last pass chooses one token. What the cache does not have of the prompts, a page
  // of each at most, may be computed in pieces of half a pass while the first sequences decode.
  const int largest_page = 128;
  const int piece = std::max(32, (shape.step_tokens - shape.sequences) / 2);
  const int early = ((shape.sequences - 1) * largest_page + piece - 1) / piece;
  return shape.prompt_tokens + 1 + early + shape.decode_tokens;
}

quire::Result<PhaseSpeeds> measure_phases(quire::Engine& engine, const PhaseShape& shape,
                                          std::uint64_t seed) {
  return PhaseRun(engine, shape)(seed);
}
