#include "attention/merge.h"

#include <algorithm>

#include "attention/merge_row.cuh"
#include "base/dependent_kernel.cuh"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = 4;  // a row each

template <int kHeadSize>
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
      merge_row<kHeadSize>(args, item, blockIdx.y, row, lane);
    }
  }
}

using Kernel = void (*)(AttentionArgs);

template <int... kHeadSizes>
Kernel kernel_of(int head_size) {
  Kernel kernel = nullptr;
  ((head_size == kHeadSizes ? void(kernel = merge_kernel<kHeadSizes>) : void()), ...);
  return kernel;
}

}  // namespace

Status launch_merge(const Launch& launch, const AttentionArgs& args, int head_size, int tiles) {
  // No more thread blocks than run at once: others would be started in vain where little is split.
  constexpr int kRowBlocks = 4;
  const int columns = std::max(1, 16 * launch.multiprocessors / (args.kv_heads * kRowBlocks));
  const dim3 grid(std::max(1, std::min(tiles, columns)), args.kv_heads, kRowBlocks);
  const Kernel kernel = kernel_of<16, 24, 32, 64, 80, 96, 128, 192, 256>(head_size);
  return launch_dependent(launch, reinterpret_cast<const void*>(kernel), "the merge of attention",
                          {grid, dim3(kWarps * 32)}, args);
}

}  // namespace quire::cuda
