#pragma once

#include "sampling/logit_row.cuh"
#include "sampling/shares.cuh"
#include "sampling/team.cuh"

namespace quire::cuda {

// Steps of the leader over the maxima and sums of a row. Functions here are called by all its
// threads, return the same in all, and end with a barrier.

struct DrawShared {
  union {
    cub::BlockReduce<float, kDrawThreads>::TempStorage reduce;
    cub::BlockScan<double, kDrawThreads>::TempStorage scan;
  };
  float max;
  int chosen_block;
  double before;
  std::int32_t token;
  int count;
  int counts[32];
  float weights[kWidth];
};

// Fills the maxima; the largest logit, -infinity if none is finite.
__device__ inline float find_maxima(LogitRow& row, const Team& team, DrawShared& shared) {
  Task task{};
  task.kind = Task::Kind::find_maxima;
  task.logits = row.logits;
  do_together(task, row, team);
  float largest = -INFINITY;
  for (int b = threadIdx.x; b < row.blocks; b += kDrawThreads) {
    largest = fmaxf(largest, row.maxima[b]);
  }
  const float max =
      cub::BlockReduce<float, kDrawThreads>(shared.reduce).Reduce(largest, [](float a, float b) {
        return fmaxf(a, b);
      });
  if (threadIdx.x == 0) shared.max = max;
  __syncthreads();
  return shared.max;
}

// The lowest id of the largest logit.
__device__ inline std::int32_t find_argmax(const LogitRow& row, float max, DrawShared& shared) {
  if (threadIdx.x == 0) shared.chosen_block = shared.token = INT32_MAX;
  __syncthreads();
  for (int b = threadIdx.x; b < row.blocks; b += kDrawThreads) {
    if (row.maxima[b] == max) atomicMin(&shared.chosen_block, b);
  }
  __syncthreads();
  const int id = shared.chosen_block * kWidth + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kWidth && id < row.vocabulary && row.logits[id] == max) {
    atomicMin(&shared.token, id);
  }
  __syncthreads();
  return shared.token;
}

// The sum of the weights of the kept tokens; those of each block are in row.sums.
__device__ inline double weigh(LogitRow& row, const DeviceWeight& weight, const DeviceCut& cut,
                               const Team& team, DrawShared& shared) {
  Task task{};
  task.kind = Task::Kind::weigh;
  task.logits = row.logits;
  task.weight = weight;
  task.cut = cut;
  do_together(task, row, team);
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

// The block in which the running sum of `sums` passes `target`, the last one of any weight should
// rounding carry the target past all of them; *before is the sum of those before it.
__device__ inline int pick_block(const LogitRow& row, double target, DrawShared& shared,
                                 double* before) {
  const int each = (row.blocks + kDrawThreads - 1) / kDrawThreads;
  const int first = static_cast<int>(threadIdx.x) * each;
  const int end = min(first + each, row.blocks);
  double mine = 0;
  int last = -1;  // block of any weight
  for (int b = first; b < end; ++b) {
    mine += row.sums[b];
    if (row.sums[b] > 0) last = b;
  }
  double sum = 0;
  cub::BlockScan<double, kDrawThreads>(shared.scan).ExclusiveSum(mine, sum);
  if (threadIdx.x == 0) {
    shared.chosen_block = INT32_MAX;
    shared.count = -1;
  }
  __syncthreads();
  if (last >= 0) atomicMax(&shared.count, last);
  if (sum + mine > target) {
    double up_to = sum;
    for (int b = first; b < end; ++b) {
      if (row.sums[b] > 0 && up_to + row.sums[b] > target) {
        atomicMin(&shared.chosen_block, b);
        break;
      }
      up_to += row.sums[b];
    }
  }
  __syncthreads();
  const int chosen = shared.chosen_block != INT32_MAX ? shared.chosen_block : shared.count;
  if (chosen >= first && chosen < end) {
    for (int b = first; b < chosen; ++b) sum += row.sums[b];
    shared.before = sum;
  }
  __syncthreads();
  *before = shared.before;
  return chosen;
}

// The token at which the running sum of kept weights, by id, passes `target`; after weigh.
__device__ inline std::int32_t pick(const LogitRow& row, double target, const DeviceWeight& weight,
                                    const DeviceCut& cut, DrawShared& shared) {
  double sum = 0;
  const int first = pick_block(row, target, shared, &sum) * kWidth;
  if (threadIdx.x < kWidth) {
    const int id = first + static_cast<int>(threadIdx.x);
    const float logit = id < row.vocabulary ? row.logits[id] : -INFINITY;
    shared.weights[threadIdx.x] = cut.keeps(logit, id) ? weight(logit) : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    std::int32_t token = first;
    for (int i = 0; i < kWidth; ++i) {
      if (shared.weights[i] == 0) continue;
      token = first + i;
      sum += shared.weights[i];
      if (sum > target) break;
    }
    shared.token = token;
  }
  __syncthreads();
  return shared.token;
}

}  // namespace quire::cuda
