#pragma once

#include <cstdint>

namespace quire::cuda {

// One draw as the kernels read it: what DrawArgs says, with its lists in one array of 32-bit words
// on the device. Positions and counts are in words.
struct DeviceDraw {
  const float* raw = nullptr;  // [vocabulary] logits
  // [vocabulary] a changed copy of them and counts that are zero between draws; both null if the
  // parameters change no logit.
  float* changed = nullptr;
  std::int32_t* counts = nullptr;

  float temperature = 1;
  bool with_min_p = false;
  double min_p_shift = 0;  // min_p keeps logits >= largest + this
  float top_p = 1;
  int top_k = 0;  // 0: off
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  double uniform = 0;  // the random number of the draw
  bool draw = true;    // false: only log-probabilities of `given`
  std::int32_t given = 0;
  int top_logprobs = -1;  // -1: no log-probabilities

  std::int32_t output = 0, output_count = 0;  // ids chosen so far
  std::int32_t prompt = 0, prompt_count = 0;  // ids of the prompt
  std::int32_t bias = 0, bias_count = 0;      // pairs {id, float bits}; at most kMostBias
  std::int32_t banned = 0, banned_count = 0;
  std::int32_t allowed = 0, allowed_count = 0;
};

enum class DrawOutcome : std::int32_t {
  chosen,
  no_finite_logit,
  all_excluded,
  too_wide,  // more candidates than the kernel sorts: for the host to draw
};

constexpr int kMostTopLogprobs = 32;  // more are for the host
constexpr int kMostBias = 1024;
constexpr int kMostCandidates = 4096;
constexpr int kMostVocabulary = 8192 * 64;

struct DeviceDrawResult {
  std::int32_t token = 0;
  DrawOutcome outcome = DrawOutcome::chosen;
  float logprob = 0;
  std::int32_t top_count = 0;
  std::int32_t top_ids[kMostTopLogprobs];
  float top_logprobs[kMostTopLogprobs];
};

}  // namespace quire::cuda
