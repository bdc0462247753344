#pragma once

#include "sampling/logit_row.cuh"
#include "sampling/team.cuh"

namespace quire::cuda {

// Shares of the steps: all threads of all blocks call them.

__device__ inline void copy_share(const Task& task, int vocabulary, const Team& team) {
  const float* __restrict__ from = task.logits;
  float* __restrict__ to = task.changed;
  const int first = team.rank * kDrawThreads + static_cast<int>(threadIdx.x);
  const int threads = team.size * kDrawThreads;
  if (whole_quads(from, vocabulary) && whole_quads(to, vocabulary)) {
#pragma unroll 4
    for (int i = first; i < vocabulary / 4; i += threads) {
      reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(from)[i];
    }
  } else {
#pragma unroll 4
    for (int i = first; i < vocabulary; i += threads) to[i] = from[i];
  }
}

__device__ inline void keep_allowed_share(const Task& task, int vocabulary, const Team& team) {
  constexpr int kAhead = 4;
  const int threads = team.size * kDrawThreads;
  int first = team.rank * kDrawThreads + static_cast<int>(threadIdx.x);
  for (; first < vocabulary; first += kAhead * threads) {
    std::int32_t count[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int id = first + u * threads;
      count[u] = id < vocabulary ? task.counts[id] : 1;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (count[u] == 0) task.changed[first + u * threads] = -INFINITY;
    }
  }
}

// Each block also keeps the maxima that it finds: it weighs the same part of the row.
__device__ inline void find_maxima_share(const LogitRow& row, const Team& team) {
  each_block(
      row, team.warp(), team.warps(), [](int) { return true; },
      [&](int b, int lane, const float(&x)[4], bool) {
        float best = -INFINITY;
#pragma unroll
        for (int j = 0; j < 4; ++j) best = fmaxf(best, isfinite(x[j]) ? x[j] : -INFINITY);
#pragma unroll
        for (int step = kBlockLanes / 2; step > 0; step /= 2) {
          best = fmaxf(best, __shfl_xor_sync(kWholeWarp, best, step));
        }
        if (lane != 0 || b >= row.blocks) return;
        row.maxima[b] = best;
        if (team.rank != 0) team.leader_maxima[b] = best;
      });
}

// Weights of the kept tokens of each block, always summed in the same order.
__device__ inline void weigh_share(const LogitRow& row, const DeviceWeight& weight,
                                   const DeviceCut& cut, const Team& team) {
  each_block(
      row, team.warp(), team.warps(), [&](int b) { return row.maxima[b] >= cut.value; },
      [&](int b, int lane, const float(&x)[4], bool wanted) {
        double sum = 0;
        if (__any_sync(kWholeWarp, wanted)) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if (cut.keeps(x[j], b * kWidth + 4 * lane + j)) sum += weight(x[j]);
          }
#pragma unroll
          for (int step = kBlockLanes / 2; step > 0; step /= 2) {
            sum += __shfl_xor_sync(kWholeWarp, sum, step);
          }
        }
        if (lane == 0 && b < row.blocks) team.leader_sums[b] = sum;
      });
}

__device__ inline void do_share(const Task& task, LogitRow& row, const Team& team) {
  row.read(task.logits);
  switch (task.kind) {
    case Task::Kind::stop:
      break;
    case Task::Kind::copy:
      copy_share(task, row.vocabulary, team);
      break;
    case Task::Kind::keep_allowed:
      keep_allowed_share(task, row.vocabulary, team);
      break;
    case Task::Kind::find_maxima:
      find_maxima_share(row, team);
      break;
    case Task::Kind::weigh:
      weigh_share(row, task.weight, task.cut, team);
      break;
  }
}

// The leader: a step done by all blocks, seen by all threads of this one.
__device__ inline void do_together(const Task& task, LogitRow& row, const Team& team) {
  hand_out(task, team);
  do_share(task, row, team);
  team.barrier();
}

// The others, until the leader stops them.
__device__ inline void help(LogitRow& row, const Team& team) {
  for (;;) {
    team.barrier();
    const Task task = *team.task;
    if (task.kind == Task::Kind::stop) return;
    do_share(task, row, team);
    team.barrier();
  }
}

}  // namespace quire::cuda
