#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace quire {

// How the next token is chosen. The order is: penalties, logit bias, banned and allowed tokens,
// temperature, then min_p, top_k, top_p on probabilities, then one draw. Unset fields take the
// model's own generation_config where it has one, else the value in brackets.
struct SamplingParams {
  std::optional<float> temperature;  // [1] >= 0; below 1e-5 the most likely token is taken
  std::optional<int> top_k;          // [0: off] >= 0: keep the k most likely tokens
  std::optional<float> top_p;        // [1: off] (0, 1]: keep the smallest set of that probability
  std::optional<float> min_p;        // [0: off] [0, 1]: keep p >= min_p x the highest p

  std::optional<float> repetition_penalty;  // [1: off] > 0; over prompt and output (CTRL, 2019)
  float frequency_penalty = 0;  // finite; times the token's count in the output, subtracted
  float presence_penalty = 0;   // finite; subtracted once if the token is in the output

  std::vector<std::pair<std::int32_t, float>> logit_bias;  // {token id, added to its logit}
  std::vector<std::int32_t> banned_tokens;                 // never chosen
  std::vector<std::int32_t> allowed_tokens;                // if not empty, nothing else is chosen

  std::optional<std::uint64_t> seed;  // unset: drawn at submit and told in the events
  int min_tokens = 0;                 // end tokens cannot be chosen before this many tokens
  bool ignore_eos = false;            // end tokens of the model do not stop the answer
};

}  // namespace quire
