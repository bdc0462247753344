#pragma once

#include "sampling/device_draw.h"
#include "sampling/logit_row.cuh"
#include "sampling/steps.cuh"

namespace quire::cuda {

// The best tokens of a row, sorted: what the cuts by count and by probability are made on.

// Larger ranks before: the logit's bits in an order of unsigned numbers, then the lower id.
__device__ inline std::uint64_t rank_key(float logit, std::int32_t id) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 becomes 0
  const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return std::uint64_t{ordered} << 32 | (0xffffffffu - static_cast<std::uint32_t>(id));
}
__device__ inline float logit_of(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}
__device__ inline std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(key));
}

// The `most`-th largest of the block maxima, or `floor` if there are fewer blocks: at least `most`
// tokens are as good.
__device__ inline float maxima_floor(const LogitRow& row, int most, float floor,
                                     DrawShared& shared) {
  if (most >= row.blocks) return floor;
  if (threadIdx.x < 32) shared.counts[threadIdx.x] = 0;
  __syncthreads();
  std::uint32_t found = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t trial = found | 1u << bit;
    int mine = 0;
    for (int b = threadIdx.x; b < row.blocks; b += kDrawThreads) {
      mine += isfinite(row.maxima[b]) && (rank_key(row.maxima[b], 0) >> 32) >= trial;
    }
    mine = __reduce_add_sync(kWholeWarp, mine);
    if (threadIdx.x % 32 == 0 && mine > 0) atomicAdd(&shared.counts[bit], mine);
    __syncthreads();
    if (shared.counts[bit] >= most) found = trial;
  }
  __syncthreads();
  if (found == 0) return floor;  // fewer finite maxima
  return fmaxf(floor, logit_of(std::uint64_t{found} << 32));
}

// All tokens >= floor into `keys`; their number, which may be more than there is room for.
__device__ inline int gather(const LogitRow& row, float floor, std::uint64_t* keys,
                             DrawShared& shared) {
  if (threadIdx.x == 0) shared.count = 0;
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  each_block(
      row, warp, kDrawThreads / 32, [&](int b) { return row.maxima[b] >= floor; },
      [&](int b, int lane, const float(&x)[4], bool) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (!isfinite(x[j]) || x[j] < floor) continue;
          const int place = atomicAdd(&shared.count, 1);
          if (place < kMostCandidates) {
            keys[place] = rank_key(x[j], b * kWidth + 4 * lane + j);
          }
        }
      });
  __syncthreads();
  const int count = shared.count;
  __syncthreads();
  return count;
}

// Bitonic sort, best first; `keys` has room for kMostCandidates.
__device__ inline void sort_candidates(std::uint64_t* keys, int count) {
  int size = 1;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += kDrawThreads) keys[i] = 0;
  __syncthreads();
  for (int span = 2; span <= size; span *= 2) {
    for (int step = span / 2; step > 0; step /= 2) {
      for (int i = threadIdx.x; i < size / 2; i += kDrawThreads) {
        const int low = 2 * step * (i / step) + i % step;
        const std::uint64_t a = keys[low], b = keys[low + step];
        const bool descending = (low & span) == 0;
        if ((a < b) == descending) {
          keys[low] = b;
          keys[low + step] = a;
        }
      }
      __syncthreads();
    }
  }
}

// The first candidate, of `count` sorted ones, with which the sum of weights reaches `target`; the
// last one if none does. *reached says which of the two.
__device__ inline int prefix_of(const std::uint64_t* keys, int count, double target,
                                const DeviceWeight& weight, DrawShared& shared, bool* reached) {
  constexpr int kEach = kMostCandidates / kDrawThreads;
  double mine = 0;
  for (int i = 0; i < kEach; ++i) {
    const int c = threadIdx.x * kEach + i;
    if (c < count) mine += weight(logit_of(keys[c]));
  }
  double before = 0;
  cub::BlockScan<double, kDrawThreads>(shared.scan).ExclusiveSum(mine, before);
  if (threadIdx.x == 0) shared.count = INT32_MAX;
  __syncthreads();
  for (int i = 0; i < kEach; ++i) {
    const int c = threadIdx.x * kEach + i;
    if (c >= count) break;
    before += weight(logit_of(keys[c]));
    if (before >= target) {
      atomicMin(&shared.count, c);
      break;
    }
  }
  __syncthreads();
  const int found = shared.count;
  __syncthreads();
  *reached = found != INT32_MAX;
  return *reached ? found : count - 1;
}

}  // namespace quire::cuda
