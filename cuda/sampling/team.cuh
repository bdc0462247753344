#pragma once

#include <cstdint>

#include <cooperative_groups.h>

#include "base/dependent_kernel.cuh"
#include "sampling/logit_row.cuh"

namespace quire::cuda {

// The thread blocks that draw one token: a cluster (one block below compute capability 9.0). The
// first leads: it takes the steps of the draw, and the others have a share of those that go over
// the whole row. What a step computes does not depend on how many blocks share it.

// A step that is shared.
struct Task {
  enum class Kind : std::int32_t { stop, copy, keep_allowed, find_maxima, weigh };
  Kind kind;
  const float* logits;         // what is read
  float* changed;              // copy: written; keep_allowed: changed in place
  const std::int32_t* counts;  // keep_allowed: 0 for what is not allowed
  DeviceWeight weight;         // weigh
  DeviceCut cut;
};

struct Team {
  int rank = 0, size = 1;
  Task* task = nullptr;            // in this block's shared memory; written by the leader
  float* leader_maxima = nullptr;  // in the leader's
  double* leader_sums = nullptr;

  // Of this thread's warp among those of all blocks.
  __device__ int warp() const { return (rank * kDrawThreads + static_cast<int>(threadIdx.x)) / 32; }
  __device__ int warps() const { return size * (kDrawThreads / 32); }

  // What the blocks wrote before it, in shared or in global memory, all of them read after it.
  __device__ void barrier() const {
#if __CUDA_ARCH__ >= 900
    if (size > 1) {
      cooperative_groups::this_cluster().sync();
      return;
    }
#endif
    __syncthreads();
  }
};

// Where what this block has at `shared` is in another block of the team.
template <class T>
__device__ inline T* in_block(T* shared, int rank) {
#if __CUDA_ARCH__ >= 900
  return cooperative_groups::this_cluster().map_shared_rank(shared, rank);
#else
  return shared;
#endif
}

__device__ inline Team this_team(Task* task, const LogitRow& row) {
  Team team;
#if __CUDA_ARCH__ >= 900
  team.rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
  team.size = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
#endif
  team.task = task;
  team.leader_maxima = in_block(row.maxima, 0);
  team.leader_sums = in_block(row.sums, 0);
  return team;
}

// Gives the others a task. They read it from their own memory, so that the leader need not wait for
// them to end.
__device__ inline void hand_out(const Task& task, const Team& team) {
  const int rank = static_cast<int>(threadIdx.x);
  if (rank > 0 && rank < team.size) *in_block(team.task, rank) = task;
  team.barrier();
}

}  // namespace quire::cuda
