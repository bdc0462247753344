#include "sampling/draw_tokens.h"

#include <algorithm>

#include "base/dependent_launch.h"
#include "sampling/candidates.cuh"
#include "sampling/change_logits.cuh"
#include "sampling/shares.cuh"
#include "sampling/steps.cuh"
#include "sampling/team.cuh"

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
__device__ bool find_cut(const DeviceDraw& draw, LogitRow& row, const DeviceWeight& weight,
                         const Team& team, std::uint64_t* keys, DrawShared& shared,
                         DeviceCut& cut) {
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
  const double target = double{draw.top_p} * weigh(row, weight, cut, team, shared);
  bool reached = false;
  const int last = prefix_of(keys, count, target, weight, shared, &reached);
  // Rounding may leave the sum of all candidates below the target.
  if (!reached && !by_count) return false;
  cut = {logit_of(keys[last]), id_of(keys[last])};
  return true;
}

__device__ DrawOutcome choose(const DeviceDraw& draw, LogitRow& row, float max, const Team& team,
                              std::uint64_t* keys, DrawShared& shared, std::int32_t& token) {
  if (draw.temperature < kGreedyBelow) {
    token = find_argmax(row, max, shared);
    return DrawOutcome::chosen;
  }
  const DeviceWeight weight{max, 1 / draw.temperature};
  DeviceCut cut;
  if (!find_cut(draw, row, weight, team, keys, shared, cut)) return DrawOutcome::too_wide;
  const double total = weigh(row, weight, cut, team, shared);
  token = pick(row, draw.uniform * total, weight, cut, shared);
  return DrawOutcome::chosen;
}

// Natural logarithms of the softmax of the raw logits.
__device__ DrawOutcome fill_logprobs(const DeviceDraw& draw, LogitRow& raw, float max,
                                     std::int32_t token, const Team& team, std::uint64_t* keys,
                                     DrawShared& shared, DeviceDrawResult& result) {
  const double normaliser = max + log(weigh(raw, {max, 1}, {}, team, shared));
  const auto logprob = [&](float logit) {
    return isfinite(logit) ? static_cast<float>(logit - normaliser) : -INFINITY;
  };
  if (threadIdx.x == 0) result.logprob = logprob(raw.logits[token]);
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

__device__ DrawOutcome lead(const DeviceDraw& draw, const std::int32_t* words, LogitRow& row,
                            const Team& team, std::uint64_t* keys, DrawShared& shared,
                            DeviceDrawResult& result) {
  DrawOutcome outcome = DrawOutcome::chosen;
  std::int32_t token = draw.given;
  float max = 0;
  row.read(draw.raw);
  if (draw.draw) {
    if (draw.changed != nullptr) change_logits(draw, words, row, team);
    max = find_maxima(row, team, shared);
    outcome = isfinite(max)             ? choose(draw, row, max, team, keys, shared, token)
              : draw.changed != nullptr ? DrawOutcome::all_excluded
                                        : DrawOutcome::no_finite_logit;
  }
  if (threadIdx.x == 0) {
    result.token = token;
    result.top_count = 0;
  }
  if (outcome != DrawOutcome::all_excluded && draw.top_logprobs < 0) return outcome;
  if (!draw.draw || draw.changed != nullptr) {
    row.read(draw.raw);
    max = find_maxima(row, team, shared);
  }
  if (!isfinite(max)) return DrawOutcome::no_finite_logit;
  if (outcome != DrawOutcome::chosen) return outcome;
  return fill_logprobs(draw, row, max, token, team, keys, shared, result);
}

// The draws and the results are in memory of the host: each is read and written once.
__global__ void __launch_bounds__(kDrawThreads, 2)
    draw_kernel(const DeviceDraw* draws, const std::int32_t* words, int vocabulary,
                DeviceDrawResult* results) {
  extern __shared__ double sums[];  // [blocks], then maxima [blocks]
  __shared__ DrawShared shared;
  __shared__ std::uint64_t keys[kMostCandidates];
  __shared__ alignas(Task) unsigned char task[sizeof(Task)];
  constexpr int kDrawWords = sizeof(DeviceDraw) / sizeof(std::uint32_t);
  __shared__ alignas(DeviceDraw) std::uint32_t draw_words[kDrawWords];
  const int blocks = (vocabulary + kWidth - 1) / kWidth;
  LogitRow row{vocabulary, blocks, reinterpret_cast<float*>(sums + blocks), sums};
  const Team team = this_team(reinterpret_cast<Task*>(task), row);
  const int place = static_cast<int>(blockIdx.x) / team.size;
  if (team.rank == 0 && threadIdx.x < kDrawWords) {
    draw_words[threadIdx.x] = reinterpret_cast<const std::uint32_t*>(draws + place)[threadIdx.x];
  }
  team.barrier();
  wait_for_previous_kernel();
  if (team.rank != 0) {
    help(row, team);
    return;
  }
  const auto& draw = *reinterpret_cast<const DeviceDraw*>(draw_words);
  const DrawOutcome outcome = lead(draw, words, row, team, keys, shared, results[place]);
  if (threadIdx.x == 0) results[place].outcome = outcome;
  hand_out({}, team);
}

// As many blocks for a draw as find room on the device at once, two on each multiprocessor.
unsigned team_size(const Launch& launch, int count) {
  if (launch.compute_capability < 90) return 1;
  unsigned size = 8;
  while (size > 1 && static_cast<long long>(count) * size > 2LL * launch.multiprocessors) size /= 2;
  return size;
}

std::size_t shared_bytes(int vocabulary) {
  const auto blocks = static_cast<std::size_t>((vocabulary + kWidth - 1) / kWidth);
  return blocks * (sizeof(double) + sizeof(float));
}

constexpr int kTakeThreads = 256;

__global__ void take_kernel(const DeviceDrawResult* results, const std::int32_t* draws, int rows,
                            std::int32_t* tokens) {
  const int row = static_cast<int>(blockIdx.x) * kTakeThreads + static_cast<int>(threadIdx.x);
  if (row < rows) tokens[row] = results[draws[row]].token;
}

}  // namespace

Status take_tokens(const Launch& launch, const DeviceDrawResult* results, const std::int32_t* draws,
                   int rows, std::int32_t* tokens) {
  const dim3 grid(static_cast<unsigned>((rows + kTakeThreads - 1) / kTakeThreads));
  take_kernel<<<grid, kTakeThreads, 0, launch.stream>>>(results, draws, rows, tokens);
  return status_of(cudaGetLastError(), "taking drawn tokens");
}

Result<int> prepare_draws() {
  const auto kernel = reinterpret_cast<const void*>(draw_kernel);
  int device = 0, most = 0;
  cudaFuncAttributes attributes{};
  Status status = status_of(cudaGetDevice(&device), "cudaGetDevice");
  if (status.ok()) {
    status =
        status_of(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                  "the device's shared memory");
  }
  if (status.ok()) {
    status = status_of(cudaFuncGetAttributes(&attributes, kernel), "the kernel of draws");
  }
  if (!status.ok()) return status;
  most -= static_cast<int>(attributes.sharedSizeBytes);
  status =
      status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
                "the shared memory of draws");
  if (!status.ok()) return status;
  return std::min(most / static_cast<int>(shared_bytes(kWidth)) * kWidth, kMostVocabulary);
}

Status draw_tokens(const Launch& launch, const DeviceDraw* draws, const std::int32_t* words,
                   int count, int vocabulary, DeviceDrawResult* results) {
  LaunchShape shape;
  shape.cluster = team_size(launch, count);
  shape.grid = static_cast<unsigned>(count) * shape.cluster;
  shape.block = kDrawThreads;
  shape.shared_bytes = shared_bytes(vocabulary);
  return launch_dependent(launch, reinterpret_cast<const void*>(draw_kernel), "draw_tokens", shape,
                          draws, words, vocabulary, results);
}

}  // namespace quire::cuda
