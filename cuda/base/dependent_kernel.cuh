#pragma once

namespace quire::cuda {

// Programmatic dependent launch (CUDA programming guide, section of that name), for kernels started
// by launch_dependent; nothing below compute capability 9.0. A kernel may be started before the one
// before it in the stream has ended, as soon as all of that one's thread blocks allow it or have
// ended, and waits for its end before it reads or writes what others use. Since every kernel waits,
// all kernels before have then ended too.
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace quire::cuda
