#include "attention/merge.h"

#include <algorithm>

#include "attention/dependent_launch.h"
#include "attention/softmax_step.cuh"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kSplitsAtOnce = 32;  // a lane each
constexpr int kLoadsAtOnce = 32;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// attention::merge for 32 splits at once, the factors in parallel: lane i folds split i into those
// before it. `before`: the largest maximum of the splits before these.
__device__ MergeFactors merge_factors(float maximum, float& before, int lane) {
  float upto = maximum;
  for (int distance = 1; distance < 32; distance *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, upto, distance);
    if (lane >= distance) upto = fmaxf(upto, other);
  }
  upto = fmaxf(upto, before);
  float left_maximum = __shfl_up_sync(0xffffffffu, upto, 1);
  if (lane == 0) left_maximum = before;
  before = __shfl_sync(0xffffffffu, upto, 31);
  if (maximum == kNone) return {1, 0};
  if (left_maximum == kNone) return {0, 1};
  return {exp2f(left_maximum - upto), exp2f(maximum - upto)};
}

// One row and query head: a column of the head for each thread, or two.
template <int kColumns>
__device__ void merge_row(const AttentionArgs& args, const MergeItem& item, int head, int row,
                          int head_size) {
  const int lane = threadIdx.x % 32;
  const std::size_t first =
      static_cast<std::size_t>(item.first_partial) + head * item.tile_rows + row;
  SoftmaxState state;
  float before = kNone;
  float sums[kColumns] = {};
  for (int split = 0; split < item.splits; split += kSplitsAtOnce) {
    float2 mine = make_float2(kNone, 0);
    if (split + lane < item.splits) {
      mine = args.partial_states[first + static_cast<std::size_t>(split + lane) * item.stride];
    }
    const MergeFactors factors = merge_factors(mine.x, before, lane);
    const int count = min(kSplitsAtOnce, item.splits - split);
    for (int part = 0; part < count; part += kLoadsAtOnce) {
      float values[kLoadsAtOnce][kColumns];
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const int column = threadIdx.x + j * kThreads;
          const std::size_t from = first + static_cast<std::size_t>(split + part + i) * item.stride;
          values[i][j] =
              part + i < count && column < head_size ? args.partial[from * head_size + column] : 0;
        }
      }
#pragma unroll
      for (int i = 0; i < kLoadsAtOnce; ++i) {
        const MergeFactors two{__shfl_sync(0xffffffffu, factors.left, part + i),
                               __shfl_sync(0xffffffffu, factors.right, part + i)};
        const float sum = __shfl_sync(0xffffffffu, mine.y, part + i);
        state.sum = merge_sum(state.sum, sum, two);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[j] = merge_sum(sums[j], values[i][j], two);
      }
    }
  }
  state.maximum = before;
  const int query_row = item.first + row;
  const int query_head = head * args.group + query_row % args.group;
  const int pass_row = item.pass_row + query_row / args.group;
  const float factor = finish_row(args, state, query_head);
  __nv_bfloat16* to =
      args.output + (static_cast<std::size_t>(pass_row) * args.heads + query_head) * head_size;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const int column = threadIdx.x + j * kThreads;
    if (column < head_size) to[column] = __float2bfloat16_rn(sums[j] * factor);
  }
}

template <int kColumns>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const __grid_constant__ AttentionArgs args, int head_size) {
  wait_for_previous_kernel();
  allow_next_kernel();
  // Both loads at once; there may be fewer items, but not less memory.
  MergeItem item =
      args.plan.merges[min(static_cast<int>(blockIdx.x), args.plan.merge_capacity - 1)];
  const int merges = args.plan.counters->merges;
  for (int index = blockIdx.x; index < merges; index += gridDim.x) {
    if (index != static_cast<int>(blockIdx.x)) item = args.plan.merges[index];
    for (int row = blockIdx.z; row < item.rows; row += gridDim.z) {
      merge_row<kColumns>(args, item, blockIdx.y, row, head_size);
    }
  }
}

}  // namespace

Status launch_merge(const Launch& launch, const AttentionArgs& args, int head_size, int tiles) {
  // No more thread blocks than run at once: others would be started in vain where little is split.
  const int rows = std::min(16, args.group * args.sequences.max_rows);
  const int columns = std::max(1, 16 * launch.multiprocessors / (args.kv_heads * rows));
  const dim3 grid(std::max(1, std::min(tiles, columns)), args.kv_heads, rows);
  const auto kernel = head_size <= kThreads ? merge_kernel<1> : merge_kernel<2>;
  return launch_dependent(launch, reinterpret_cast<const void*>(kernel), "the merge of attention",
                          {grid, dim3(kThreads), 0}, args, head_size);
}

}  // namespace quire::cuda
