#pragma once

#include "attention/hopper/consumer.cuh"
#include "attention/hopper/forward_kernels.h"
#include "attention/hopper/producer.cuh"

namespace quire::cuda::hopper {

// A thread block for each multiprocessor takes tiles until none is left: the first warpgroup brings
// data, the others compute.
template <class Shape, bool kSoftCap>
__global__ void __launch_bounds__(Shape::kPolicy.threads(), 1)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // the other architectures of a build get an empty kernel
  extern __shared__ std::byte memory[];
  const Pipeline<Shape> pipe{(shared_address_of(memory) + 1023) / 1024 * 1024};
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    prefetch_map(args.query);
    prefetch_map(args.kv);
    pipe.create_barriers();
  }
  __syncthreads();
  if (warpgroup == 0) {
    give_registers<Shape::kPolicy.producer_registers>();
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    const Producer<Shape> producer{args, pipe, static_cast<int>(threadIdx.x % 32)};
    if (warp == 0) {
      producer.bring_queries_and_keys();
    } else if (warp == 1) {
      producer.bring_values();
    }
  } else {
    take_registers<Shape::kPolicy.consumer_registers>();
    Consumer<Shape, kSoftCap>{args, pipe, warpgroup - 1, static_cast<int>(threadIdx.x % 128)}.run();
  }
#endif
}

template <class Shape, bool kSoftCap>
ForwardKernel forward_instance() {
  static_assert(ForwardMemory(Shape::kPolicy).total <= kMostSharedBytes);
  return {forward_kernel<Shape, kSoftCap>, Shape::kPolicy,
          ForwardMemory(Shape::kPolicy).total + 1024};
}

}  // namespace quire::cuda::hopper
