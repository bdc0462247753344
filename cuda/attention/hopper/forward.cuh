#pragma once

#include <type_traits>

#include "attention/hopper/consumer.cuh"
#include "attention/hopper/forward_kernels.h"
#include "attention/hopper/fp8_consumer.cuh"
#include "attention/hopper/producer.cuh"
#include "attention/hopper/scale_producer.cuh"
#include "base/dependent_kernel.cuh"

namespace quire::cuda::hopper {

template <class Shape, class Element, bool kSoftCap>
using ConsumerFor =
    std::conditional_t<std::is_same_v<Element, __nv_fp8_e4m3>, Fp8Consumer<Shape, kSoftCap>,
                       Consumer<Shape, Element, kSoftCap>>;

// A thread block for each multiprocessor takes tiles until none is left: the first warpgroup brings
// data, the others compute.
template <class Shape, class Element, bool kSoftCap>
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
  if constexpr (Shape::kPolicy.prefix) {
    wait_for_previous_kernel();
    allow_next_kernel();
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
    } else if (Shape::kPolicy.element_bytes == 1 && warp == 2) {
      ScaleProducer<Shape>{args, pipe, producer.lane}.bring_scales();
    }
  } else {
    take_registers<Shape::kPolicy.consumer_registers>();
    ConsumerFor<Shape, Element, kSoftCap>{
        {args, pipe, warpgroup - 1, static_cast<int>(threadIdx.x % 128)}}
        .run();
  }
#endif
}

template <class Shape, bool kSoftCap, class Element = __nv_bfloat16>
ForwardKernel forward_instance() {
  static_assert((Shape::kPolicy.element_bytes == 1) == std::is_same_v<Element, __nv_fp8_e4m3>);
  static_assert(ForwardMemory(Shape::kPolicy).total <= kMostSharedBytes);
  return {forward_kernel<Shape, Element, kSoftCap>, Shape::kPolicy,
          ForwardMemory(Shape::kPolicy).total + 1024};
}

}  // namespace quire::cuda::hopper
