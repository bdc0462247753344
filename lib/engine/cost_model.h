#pragma once

#include <algorithm>
#include <chrono>

namespace quire {

// What passes have cost on this machine so far, to choose how many prompt tokens join running
// answers: exponential averages over passes, in seconds.
class CostModel {
 public:
  // `mixed_pass_time`: see SchedulingOptions.
  explicit CostModel(std::chrono::milliseconds mixed_pass_time)
      : mixed_pass_(std::chrono::duration<double>(mixed_pass_time).count()) {}

  void add_pass(int decode_tokens, int prefill_tokens, double seconds) {
    if (prefill_tokens == 0) {
      average(decode_pass_, seconds);
    } else if (prefill_tokens >= 8) {
      const double base = decode_tokens > 0 ? std::min(decode_pass_, seconds / 2) : 0;
      average(prefill_token_, (seconds - base) / prefill_tokens);
    }
  }

  // Most prompt tokens for a pass while answers run (0: no limit): such that the pass lasts at most
  // twice as long as without them or mixed_pass_time (at least 32 tokens) and, with a time budget,
  // about four budgets.
  int chunk(double budget_seconds) const {
    if (mixed_pass_ <= 0 && budget_seconds <= 0) return 0;
    if (prefill_token_ <= 0) return budget_seconds > 0 ? 16 : 32;
    const double seconds = std::max(decode_pass_, mixed_pass_ - decode_pass_);
    double tokens = mixed_pass_ > 0 ? std::max(32.0, seconds / prefill_token_) : 1e6;
    if (budget_seconds > 0) {
      tokens =
          std::min(tokens, std::max(8.0, (4 * budget_seconds - decode_pass_) / prefill_token_));
    }
    return static_cast<int>(std::min(tokens, 1e6));
  }

 private:
  static void average(double& value, double sample) {
    value = value <= 0 ? sample : 0.75 * value + 0.25 * sample;
  }
  double mixed_pass_;
  double decode_pass_ = 0;
  double prefill_token_ = 0;
};

}  // namespace quire
