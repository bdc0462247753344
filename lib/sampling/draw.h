#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <quire/status.h>

namespace quire {

// Sampling parameters with every default filled in and checked.
struct DrawParams {
  float temperature = 1;  // < 1e-5: greedy
  int top_k = 0;          // 0: off
  float top_p = 1;        // 1: off
  float min_p = 0;        // 0: off
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  std::span<const std::pair<std::int32_t, float>> bias;
  std::span<const std::int32_t> banned;   // never chosen
  std::span<const std::int32_t> allowed;  // if not empty, nothing else is chosen
};

// One token to choose. The generator is counter-based: the same (seed, choice, position) and logits
// give the same token, whatever else is drawn.
struct DrawArgs {
  const float* logits = nullptr;  // [vocabulary], left unchanged; float32 on the device
  int vocabulary = 0;
  DrawParams params;
  std::span<const std::int32_t> prompt;  // ids of the prompt, for the repetition penalty
  std::span<const std::int32_t> output;  // ids chosen so far
  std::uint64_t seed = 0;
  int choice = 0;
  int position = 0;  // of the new token in its answer: output.size()
  bool draw = true;  // false: only log-probabilities of `given`
  std::int32_t given = 0;
  int logprobs = -1;  // -1: none; k >= 0: of the token, and the k most likely
};

struct DrawResult {
  std::int32_t token = 0;
  // internal if no token has a finite logit, invalid_argument if banned and allowed tokens leave
  // none; other draws are not affected.
  Status status;
  float logprob = 0;
  std::vector<std::pair<std::int32_t, float>> top;  // most likely first; ties by lower id
};

// Reusable memory of one thread's draws.
struct DrawScratch {
  std::vector<float> logits;
  std::vector<std::pair<float, std::int32_t>> candidates;
  std::vector<float> maxima, changed_maxima;  // [blocks]: of the raw and of the changed logits
  std::vector<double> block_sums;             // [blocks]
  std::vector<std::int32_t> counts;           // [vocabulary]: all zero between draws
};

// Chooses one token (host). The order of the filters is that of SamplingParams.
DrawResult draw_token(const DrawArgs& args, DrawScratch& scratch);

}  // namespace quire
