#pragma once

#include <cfloat>
#include <cstdint>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "sampling/exponential.h"

namespace quire::cuda {

// One row of logits in blocks of 64 with the largest of each, as lib/sampling/logit_blocks.h has
// them: what is not finite is in no maximum, sum or candidate.

constexpr int kDrawThreads = 512;
constexpr int kWidth = 64;       // logits of a block
constexpr int kBlockLanes = 16;  // threads that share a block, four logits each
constexpr unsigned kWholeWarp = 0xffffffffu;

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

// Whether a row can be read four logits at a time.
__device__ inline bool whole_quads(const float* logits, int vocabulary) {
  return vocabulary % 4 == 0 && reinterpret_cast<std::uintptr_t>(logits) % sizeof(float4) == 0;
}

struct LogitRow {
  int vocabulary = 0;
  int blocks = 0;
  float* maxima = nullptr;  // shared, [blocks]
  double* sums = nullptr;   // shared, [blocks]
  const float* logits = nullptr;
  bool quads = false;

  __device__ void read(const float* row) {
    logits = row;
    quads = whole_quads(row, vocabulary);
  }
};

// Calls body(block, lane, logit x4, wanted(block)) in whole warps, each half of a warp for a block
// of its own, which may be behind the last one. Logit j of a lane has the id
// block * kWidth + 4 * lane + j, and is -infinity behind the vocabulary and where it is not wanted.
// `warp` of `warps` has every warps-th group of blocks.
template <class Wanted, class Body>
__device__ inline void each_block(const LogitRow& row, int warp, int warps, Wanted wanted,
                                  Body body) {
  constexpr int kAhead = 5;  // loads that a thread has in flight
  const int lane = threadIdx.x % kBlockLanes;
  const int half = threadIdx.x % 32 / kBlockLanes;
  for (int first = 2 * kAhead * warp; first < row.blocks; first += 2 * kAhead * warps) {
    float x[kAhead][4];
    bool here[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int b = first + 2 * u + half;
      here[u] = b < row.blocks && wanted(b);
    }
    if (row.quads) {
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int id = (first + 2 * u + half) * kWidth + 4 * lane;
        float4 four = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        if (here[u] && id < row.vocabulary) {
          four = *reinterpret_cast<const float4*>(row.logits + id);
        }
        x[u][0] = four.x, x[u][1] = four.y, x[u][2] = four.z, x[u][3] = four.w;
      }
    } else {
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int id = (first + 2 * u + half) * kWidth + 4 * lane + j;
          x[u][j] = here[u] && id < row.vocabulary ? row.logits[id] : -INFINITY;
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) body(first + 2 * u + half, lane, x[u], here[u]);
  }
}

}  // namespace quire::cuda
