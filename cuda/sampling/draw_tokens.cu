#include "sampling/draw_tokens.h"

#include "sampling/candidates.cuh"
#include "sampling/change_logits.cuh"
#include "sampling/logit_row.cuh"

namespace quire::cuda {
namespace {

constexpr float kGreedyBelow = 1e-5f;
constexpr int kWindow = 256;  // candidates that most nuclei fit in

// The least logit whose probability is at least min_p of the best one's.
__device__ float min_p_floor(const DeviceDraw& draw, float max) {
  if (!draw.with_min_p) return -FLT_MAX;
  const double least = max + draw.min_p_shift;
  if (least <= -double{FLT_MAX}) return -FLT_MAX;
  const float rounded = static_cast<float>(least);
  return rounded < least ? nextafterf(rounded, max) : rounded;
}

// min_p, top_k and top_p, in this order, each on what the last one left. False: too many
// candidates.
__device__ bool find_cut(const DeviceDraw& draw, const LogitRow& row, const DeviceWeight& weight,
                         std::uint64_t* keys, RowShared& shared, DeviceCut& cut) {
  const float floor = min_p_floor(draw, weight.max);
  cut = {floor, INT32_MAX};
  const bool by_count = draw.top_k > 0 && draw.top_k < row.vocabulary;
  if (!by_count && draw.top_p >= 1) return true;
  const int most = by_count ? draw.top_k : kWindow;
  int count = gather(row, maxima_floor(row, most, floor, shared), keys, shared);
  if (count > kMostCandidates) return false;
  sort_candidates(keys, count);
  // Also when just as many were gathered: those below the floor of their gathering count no more.
  if (by_count && count >= draw.top_k) {
    count = draw.top_k;
    cut = {logit_of(keys[count - 1]), id_of(keys[count - 1])};
  }
  if (draw.top_p >= 1) return true;
  const double target = double{draw.top_p} * weigh(row, weight, cut, shared);
  bool reached = false;
  const int last = prefix_of(keys, count, target, weight, shared, &reached);
  // Rounding may leave the sum of all candidates below the target.
  if (!reached && !by_count) return false;
  cut = {logit_of(keys[last]), id_of(keys[last])};
  return true;
}

__device__ DrawOutcome choose(const DeviceDraw& draw, const LogitRow& row, float max,
                              std::uint64_t* keys, RowShared& shared, std::int32_t& token) {
  if (draw.temperature < kGreedyBelow) {
    token = find_argmax(row, max, shared);
    return DrawOutcome::chosen;
  }
  const DeviceWeight weight{max, 1 / draw.temperature};
  DeviceCut cut;
  if (!find_cut(draw, row, weight, keys, shared, cut)) return DrawOutcome::too_wide;
  const double total = weigh(row, weight, cut, shared);
  token = pick(row, draw.uniform * total, weight, cut, shared);
  return DrawOutcome::chosen;
}

// Natural logarithms of the softmax of the raw logits.
__device__ DrawOutcome fill_logprobs(const DeviceDraw& draw, const LogitRow& raw, float max,
                                     std::uint64_t* keys, RowShared& shared,
                                     DeviceDrawResult& result) {
  const double normaliser = max + log(weigh(raw, {max, 1}, {}, shared));
  const auto logprob = [&](float logit) {
    return isfinite(logit) ? static_cast<float>(logit - normaliser) : -INFINITY;
  };
  if (threadIdx.x == 0) result.logprob = logprob(raw.logits[result.token]);
  if (draw.top_logprobs <= 0) return DrawOutcome::chosen;
  const int wanted = min(draw.top_logprobs, raw.vocabulary);
  const int count = gather(raw, maxima_floor(raw, wanted, -FLT_MAX, shared), keys, shared);
  if (count > kMostCandidates || count < wanted) return DrawOutcome::too_wide;
  sort_candidates(keys, count);
  for (int i = threadIdx.x; i < wanted; i += kDrawThreads) {
    result.top_ids[i] = id_of(keys[i]);
    result.top_logprobs[i] = logprob(logit_of(keys[i]));
  }
  if (threadIdx.x == 0) result.top_count = wanted;
  return DrawOutcome::chosen;
}

__global__ void __launch_bounds__(kDrawThreads)
    draw_kernel(const DeviceDraw* draws, const std::int32_t* words, int vocabulary,
                DeviceDrawResult* results) {
  extern __shared__ double sums[];  // [blocks], then maxima [blocks]
  __shared__ RowShared shared;
  __shared__ std::uint64_t keys[kMostCandidates];
  const DeviceDraw draw = draws[blockIdx.x];
  DeviceDrawResult& result = results[blockIdx.x];
  const int blocks = (vocabulary + kWidth - 1) / kWidth;
  LogitRow row{draw.raw, vocabulary, blocks, reinterpret_cast<float*>(sums + blocks), sums};
  DrawOutcome outcome = DrawOutcome::chosen;

  std::int32_t token = draw.given;
  if (draw.draw) {
    if (draw.changed != nullptr) {
      change_logits(draw, words, vocabulary);
      row.logits = draw.changed;
    }
    const float max = find_maxima(row, shared);
    outcome = isfinite(max)             ? choose(draw, row, max, keys, shared, token)
              : draw.changed != nullptr ? DrawOutcome::all_excluded
                                        : DrawOutcome::no_finite_logit;
  }
  if (threadIdx.x == 0) {
    result.token = token;
    result.top_count = 0;
  }
  __syncthreads();
  if (outcome == DrawOutcome::all_excluded || draw.top_logprobs >= 0) {
    row.logits = draw.raw;
    const float max = find_maxima(row, shared);
    if (!isfinite(max)) {
      outcome = DrawOutcome::no_finite_logit;
    } else if (outcome == DrawOutcome::chosen) {
      outcome = fill_logprobs(draw, row, max, keys, shared, result);
    }
  }
  if (threadIdx.x == 0) result.outcome = outcome;
}

}  // namespace

Status draw_tokens(const Launch& launch, const DeviceDraw* draws, const std::int32_t* words,
                   int count, int vocabulary, DeviceDrawResult* results) {
  const std::size_t blocks = static_cast<std::size_t>((vocabulary + kWidth - 1) / kWidth);
  const std::size_t bytes = blocks * (sizeof(double) + sizeof(float));
  if (Status s =
          status_of(cudaFuncSetAttribute(draw_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(bytes)),
                    "draw_tokens");
      !s.ok()) {
    return s;
  }
  draw_kernel<<<static_cast<unsigned>(count), kDrawThreads, bytes, launch.stream>>>(
      draws, words, vocabulary, results);
  return status_of(cudaGetLastError(), "draw_tokens");
}

}  // namespace quire::cuda
