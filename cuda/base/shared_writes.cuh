#pragma once

namespace quire::cuda {

// Orders this thread's own accesses to shared memory before those of the copy engine and wgmma;
// sm_90 (PTX ISA: fence.proxy.async).
__device__ inline void publish_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace quire::cuda
