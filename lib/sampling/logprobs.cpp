#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::sampling {
namespace {

// The tokens without a probability, by id, after those that have one.
void append_impossible(std::span<const float> logits, std::size_t size,
                       std::vector<std::pair<std::int32_t, float>>& top) {
  for (std::size_t id = 0; id < logits.size() && top.size() < size; ++id) {
    if (std::isfinite(logits[id])) continue;
    top.emplace_back(static_cast<std::int32_t>(id), -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

void fill_logprobs(const LogitBlocks& raw, std::int32_t token, int k, DrawScratch& scratch,
                   DrawResult& result) {
  const auto logits = raw.logits();
  const double sum = raw.weigh({raw.max(), 1}, {}, scratch.block_sums);
  const double normaliser = raw.max() + std::log(sum);
  const auto logprob = [&](float logit) {
    return std::isfinite(logit) ? static_cast<float>(logit - normaliser)
                                : -std::numeric_limits<float>::infinity();
  };
  result.logprob = logprob(logits[token]);

  result.top.clear();
  if (k <= 0) return;
  const std::size_t size = std::min<std::size_t>(k, logits.size());
  auto& candidates = scratch.candidates;
  raw.gather(size, -FLT_MAX, candidates);
  const std::size_t found = std::min(size, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(found),
                    candidates.end(), ranks_before);
  for (std::size_t i = 0; i < found; ++i) {
    result.top.emplace_back(candidates[i].second, logprob(candidates[i].first));
  }
  append_impossible(logits, size, result.top);
}

}  // namespace quire::sampling
