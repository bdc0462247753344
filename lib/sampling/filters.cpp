#include "sampling/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::sampling {
namespace {

constexpr std::int32_t kAnyId = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kWindow = 256;  // candidates that most nuclei fit in

// The least logit whose probability is at least min_p of the best one's.
float min_p_floor(const DrawParams& params, float max) {
  if (params.min_p <= 0) return -FLT_MAX;
  const double least = max + double{params.temperature} * std::log(double{params.min_p});
  if (least <= -FLT_MAX) return -FLT_MAX;
  const float rounded = static_cast<float>(least);
  return rounded < least ? std::nextafter(rounded, max) : rounded;
}

// Cuts at the k-th candidate, which may be in any order.
Cut top_k_cut(std::vector<Candidate>& candidates, std::size_t k, float floor) {
  if (candidates.size() <= k) return {floor, kAnyId};
  const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(candidates.begin(), last, candidates.end(), ranks_before);
  const Cut cut{last->first, last->second};
  candidates.resize(k);
  return cut;
}

double sum_weights(std::span<const Candidate> candidates, const Weight& weight) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += weight(c.first);
  return sum;
}

// Cuts at the first candidate, best first, with which the sum of weights reaches `target`: halves
// the part that holds it until it is small enough to sort.
Cut prefix_cut(std::span<Candidate> candidates, double target, const Weight& weight) {
  double before = 0;
  while (candidates.size() > 32) {
    const std::size_t half = candidates.size() / 2;
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(half),
                     candidates.end(), ranks_before);
    const double sum = sum_weights(candidates.first(half), weight);
    if (before + sum >= target) {
      candidates = candidates.first(half);
    } else {
      before += sum;
      candidates = candidates.subspan(half);
    }
  }
  std::sort(candidates.begin(), candidates.end(), ranks_before);
  for (const Candidate& c : candidates) {
    before += weight(c.first);
    if (before >= target) return {c.first, c.second};
  }
  return {candidates.back().first, candidates.back().second};
}

}  // namespace

Cut find_cut(const LogitBlocks& blocks, const DrawParams& params, const Weight& weight,
             DrawScratch& scratch) {
  auto& candidates = scratch.candidates;
  const std::size_t size = blocks.logits().size();
  const float floor = min_p_floor(params, blocks.max());
  Cut cut{floor, kAnyId};
  const bool by_count = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < size;
  if (by_count) {
    const std::size_t k = static_cast<std::size_t>(params.top_k);
    blocks.gather(k, floor, candidates);
    cut = top_k_cut(candidates, k, floor);
  }
  if (params.top_p >= 1) return cut;

  const double target = double{params.top_p} * blocks.weigh(weight, cut, scratch.block_sums);
  if (!by_count) {
    blocks.gather(kWindow, floor, candidates);
    if (sum_weights(candidates, weight) < target) blocks.gather(size, floor, candidates);
  }
  return prefix_cut(candidates, target, weight);
}

}  // namespace quire::sampling
