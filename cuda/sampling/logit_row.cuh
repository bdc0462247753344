#pragma once

#include <cfloat>
#include <cstdint>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "sampling/exponential.h"

namespace quire::cuda {

// One row of logits in blocks of 64 with the largest of each, as lib/sampling/logit_blocks.h has
// them: what is not finite is in no maximum, sum or candidate. Functions here are called by all
// threads of a thread block and end with a barrier.

constexpr int kDrawThreads = 512;
constexpr int kWidth = 64;       // logits of a block
constexpr int kBlockLanes = 16;  // threads that share a block, four logits each

// Everything that ranks before or at one token: more likely first, ties by lower id.
struct DeviceCut {
  float value = -FLT_MAX;
  std::int32_t id = INT32_MAX;

  __device__ bool keeps(float logit, std::int32_t token) const {
    return isfinite(logit) && (logit > value || (logit == value && token <= id));
  }
};

struct DeviceWeight {
  float max = 0;
  float inverse_temperature = 1;

  __device__ float operator()(float logit) const {
    return sampling::exponential((logit - max) * inverse_temperature);
  }
};

struct LogitRow {
  const float* logits = nullptr;
  int vocabulary = 0;
  int blocks = 0;
  float* maxima = nullptr;  // shared, [blocks]
  double* sums = nullptr;   // shared, [blocks]
};

struct RowShared {
  union {
    cub::BlockReduce<float, kDrawThreads>::TempStorage reduce;
    cub::BlockReduce<int, kDrawThreads>::TempStorage reduce_int;
    cub::BlockScan<double, kDrawThreads>::TempStorage scan;
  };
  float max;
  double total;
  int chosen_block;
  double before;
  std::int32_t token;
  int count;
};

// Calls body(block, lane, logit x4) in groups of kBlockLanes threads for each block with a logit of
// at least `least`; logit j of a lane has the id block * kWidth + lane + kBlockLanes * j, and is
// -infinity behind the vocabulary.
template <class Body>
__device__ inline void each_block(const LogitRow& row, float least, bool all, Body body) {
  const int lane = threadIdx.x % kBlockLanes;
  for (int b = threadIdx.x / kBlockLanes; b < row.blocks; b += kDrawThreads / kBlockLanes) {
    if (!all && !(row.maxima[b] >= least)) continue;
    float x[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int id = b * kWidth + lane + kBlockLanes * j;
      x[j] = id < row.vocabulary ? row.logits[id] : -INFINITY;
    }
    body(b, lane, x);
  }
}

// The group of a thread as a mask of its warp: the loops of two groups may differ in length.
__device__ inline unsigned group_mask() {
  return threadIdx.x % 32 < kBlockLanes ? 0x0000ffffu : 0xffff0000u;
}

// Fills the maxima; the largest logit, -infinity if none is finite.
__device__ inline float find_maxima(const LogitRow& row, RowShared& shared) {
  float largest = -INFINITY;
  each_block(row, 0, true, [&](int b, int lane, const float(&x)[4]) {
    float best = -INFINITY;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (isfinite(x[j])) best = fmaxf(best, x[j]);
    }
#pragma unroll
    for (int step = kBlockLanes / 2; step > 0; step /= 2) {
      best = fmaxf(best, __shfl_xor_sync(group_mask(), best, step));
    }
    if (lane == 0) row.maxima[b] = best;
    largest = fmaxf(largest, best);
  });
  const float max =
      cub::BlockReduce<float, kDrawThreads>(shared.reduce).Reduce(largest, [](float a, float b) {
        return fmaxf(a, b);
      });
  if (threadIdx.x == 0) shared.max = max;
  __syncthreads();
  return shared.max;
}

// The lowest id of the largest logit.
__device__ inline std::int32_t find_argmax(const LogitRow& row, float max, RowShared& shared) {
  if (threadIdx.x == 0) shared.token = INT32_MAX;
  __syncthreads();
  each_block(row, max, false, [&](int b, int lane, const float(&x)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (x[j] == max) atomicMin(&shared.token, b * kWidth + lane + kBlockLanes * j);
    }
  });
  __syncthreads();
  return shared.token;
}

// Weights of the kept tokens summed for each block into row.sums, always in the same order; returns
// the sum of all.
__device__ inline double weigh(const LogitRow& row, const DeviceWeight& weight,
                               const DeviceCut& cut, RowShared& shared) {
  for (int b = threadIdx.x; b < row.blocks; b += kDrawThreads) row.sums[b] = 0;
  __syncthreads();
  each_block(row, cut.value, false, [&](int b, int lane, const float(&x)[4]) {
    double sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int32_t id = b * kWidth + lane + kBlockLanes * j;
      if (cut.keeps(x[j], id)) sum += weight(x[j]);
    }
#pragma unroll
    for (int step = kBlockLanes / 2; step > 0; step /= 2) {
      sum += __shfl_xor_sync(group_mask(), sum, step);
    }
    if (lane == 0) row.sums[b] = sum;
  });
  __syncthreads();
  const int each = (row.blocks + kDrawThreads - 1) / kDrawThreads;
  double mine = 0;
  for (int i = 0; i < each; ++i) {
    const int b = threadIdx.x * each + i;
    if (b < row.blocks) mine += row.sums[b];
  }
  double before = 0, total = 0;
  cub::BlockScan<double, kDrawThreads>(shared.scan).ExclusiveSum(mine, before, total);
  __syncthreads();
  return total;
}

// The token at which the running sum of kept weights, by id, passes `target`; after weigh.
__device__ inline std::int32_t pick(const LogitRow& row, double target, const DeviceWeight& weight,
                                    const DeviceCut& cut, RowShared& shared) {
  const int each = (row.blocks + kDrawThreads - 1) / kDrawThreads;
  double mine = 0;
  int last = -1;  // block of any weight
  for (int i = 0; i < each; ++i) {
    const int b = threadIdx.x * each + i;
    if (b >= row.blocks) break;
    mine += row.sums[b];
    if (row.sums[b] > 0) last = b;
  }
  double before = 0;
  cub::BlockScan<double, kDrawThreads>(shared.scan).ExclusiveSum(mine, before);
  if (threadIdx.x == 0) {
    shared.chosen_block = INT32_MAX;
    shared.count = -1;
  }
  __syncthreads();
  atomicMax(&shared.count, last);
  if (before + mine > target) {
    double sum = before;
    for (int i = 0; i < each; ++i) {
      const int b = threadIdx.x * each + i;
      if (b >= row.blocks) break;
      if (row.sums[b] > 0 && sum + row.sums[b] > target) {
        atomicMin(&shared.chosen_block, b);
        break;
      }
      sum += row.sums[b];
    }
  }
  __syncthreads();
  // The last block of any weight, should rounding carry the sum past all of them.
  const int chosen = shared.chosen_block != INT32_MAX ? shared.chosen_block : shared.count;
  if (chosen >= static_cast<int>(threadIdx.x) * each &&
      chosen < (static_cast<int>(threadIdx.x) + 1) * each) {
    double sum = before;
    for (int b = threadIdx.x * each; b < chosen; ++b) sum += row.sums[b];
    shared.before = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = shared.before;
    std::int32_t token = chosen * kWidth;
    for (int i = 0; i < kWidth && chosen * kWidth + i < row.vocabulary; ++i) {
      const std::int32_t id = chosen * kWidth + i;
      const float logit = row.logits[id];
      const float w = cut.keeps(logit, id) ? weight(logit) : 0;
      if (w == 0) continue;
      token = id;
      sum += w;
      if (sum > target) break;
    }
    shared.token = token;
  }
  __syncthreads();
  return shared.token;
}

}  // namespace quire::cuda
