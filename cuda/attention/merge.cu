#include "attention/merge.h"

#include <algorithm>
#include <iterator>

#include "attention/merge_row.cuh"
#include "attention/tile_policy.h"
#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 4;  // a row each

template <int kGroups>
__global__ void __launch_bounds__(kWarps * 32)
    merge_kernel(const __grid_constant__ AttentionArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Both loads at once; there may be fewer items, but not less memory.
  MergeItem item =
      args.plan.large_merges[min(static_cast<int>(blockIdx.x), args.plan.merge_capacity - 1)];
  const int merges = args.plan.counters->large_merges;
  for (int index = blockIdx.x; index < merges; index += gridDim.x) {
    if (index != static_cast<int>(blockIdx.x)) item = args.plan.large_merges[index];
    for (int row = blockIdx.z * kWarps + warp; row < item.rows; row += gridDim.z * kWarps) {
      merge_row<kGroups>(args, item, blockIdx.y, row, lane);
    }
  }
}

}  // namespace

Status launch_merge(const Launch& launch, const AttentionArgs& args, int tiles) {
  // No more thread blocks than run at once: others would be started in vain where little is split.
  constexpr int kRowBlocks = 4;
  const int columns = std::max(1, 16 * launch.multiprocessors / (args.kv_heads * kRowBlocks));
  const dim3 grid(std::max(1, std::min(tiles, columns)), args.kv_heads, kRowBlocks);
  static_assert(merge_groups(std::end(kTileWidths)[-1]) == 2);
  const auto kernel = merge_groups(args.head_size) == 1 ? merge_kernel<1> : merge_kernel<2>;
  return launch_dependent(launch, reinterpret_cast<const void*>(kernel), "the merge of attention",
                          {grid, dim3(kWarps * 32)}, args);
}

}  // namespace quire::cuda
