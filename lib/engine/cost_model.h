#pragma once

#include <algorithm>

namespace quire {

// What passes have cost on this machine so far, to choose how many prompt tokens join running
// answers: exponential averages over passes, in seconds.
class CostModel {
 public:
  void add_pass(int decode_tokens, int prefill_tokens, double seconds) {
    if (prefill_tokens == 0) {
      average(decode_pass_, seconds);
    } else if (prefill_tokens >= 8) {
      const double base = decode_tokens > 0 ? std::min(decode_pass_, seconds / 2) : 0;
      average(prefill_token_, (seconds - base) / prefill_tokens);
    }
  }

  // Most prompt tokens for a pass while answers run: such that the pass lasts at most twice as long
  // as without them or 20 ms (at least 32 tokens) and, with a time budget, about four budgets.
  int chunk(double budget_seconds) const {
    if (prefill_token_ <= 0) return budget_seconds > 0 ? 16 : 32;
    const double seconds = std::max(decode_pass_, kUnnoticed - decode_pass_);
    double tokens = std::max(32.0, seconds / prefill_token_);
    if (budget_seconds > 0) {
      tokens =
          std::min(tokens, std::max(8.0, (4 * budget_seconds - decode_pass_) / prefill_token_));
    }
    return static_cast<int>(std::min(tokens, 1e6));
  }

 private:
  // Between two tokens of an answer; 50 tokens a second are more than anybody reads.
  static constexpr double kUnnoticed = 0.020;

  static void average(double& value, double sample) {
    value = value <= 0 ? sample : 0.75 * value + 0.25 * sample;
  }
  double decode_pass_ = 0;
  double prefill_token_ = 0;
};

}  // namespace quire
