#include "sampling/penalties.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

namespace quire::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::int32_t kInPrompt = -1;  // counts: in the prompt only

bool inside(std::int32_t id, std::span<const float> logits) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size();
}

void store(float& logit, double value) {
  if (std::isfinite(logit))
    logit = static_cast<float>(std::clamp<double>(value, -FLT_MAX, FLT_MAX));
}

// CTRL (Keskar et al., 2019), section 4.1: towards less likely on both sides of zero.
double repeated(double logit, float penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

// Applies each token's penalties at the first place where it is found, and clears its count.
void penalise(std::span<const std::int32_t> ids, const DrawParams& params, std::span<float> logits,
              std::vector<std::int32_t>& counts) {
  for (const std::int32_t id : ids) {
    if (!inside(id, logits) || counts[id] == 0) continue;
    double value = repeated(logits[id], params.repetition_penalty);
    if (counts[id] > 0) {
      value -= double{params.frequency_penalty} * counts[id] + params.presence_penalty;
    }
    store(logits[id], value);
    counts[id] = 0;
  }
}

void apply_penalties(const DrawArgs& args, std::span<float> logits, DrawScratch& scratch) {
  const bool with_prompt = args.params.repetition_penalty != 1;
  auto& counts = scratch.counts;
  if (counts.size() < logits.size()) counts.resize(logits.size(), 0);
  for (const std::int32_t id : args.output) {
    if (inside(id, logits)) ++counts[id];
  }
  if (with_prompt) {
    for (const std::int32_t id : args.prompt) {
      if (inside(id, logits) && counts[id] == 0) counts[id] = kInPrompt;
    }
  }
  penalise(args.output, args.params, logits, counts);
  if (with_prompt) penalise(args.prompt, args.params, logits, counts);
}

void keep_only(std::span<const std::int32_t> allowed, std::span<float> logits,
               std::vector<std::pair<float, std::int32_t>>& kept) {
  kept.clear();
  for (const std::int32_t id : allowed) {
    if (inside(id, logits)) kept.emplace_back(logits[id], id);
  }
  std::fill(logits.begin(), logits.end(), kNever);
  for (const auto& [logit, id] : kept) logits[id] = logit;
}

}  // namespace

bool has_penalties(const DrawParams& params) {
  return params.repetition_penalty != 1 || params.frequency_penalty != 0 ||
         params.presence_penalty != 0;
}

bool changes_logits(const DrawParams& params) {
  return has_penalties(params) || !params.bias.empty() || !params.banned.empty() ||
         !params.allowed.empty();
}

void change_logits(const DrawArgs& args, std::span<float> logits, DrawScratch& scratch) {
  const DrawParams& params = args.params;
  if (has_penalties(params)) apply_penalties(args, logits, scratch);
  for (const auto& [id, bias] : params.bias) {
    if (inside(id, logits)) store(logits[id], double{logits[id]} + bias);
  }
  for (const std::int32_t id : params.banned) {
    if (inside(id, logits)) logits[id] = kNever;
  }
  if (!params.allowed.empty()) keep_only(params.allowed, logits, scratch.candidates);
}

}  // namespace quire::sampling
