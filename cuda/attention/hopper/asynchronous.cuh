#pragma once

#include <cuda.h>

#include "base/shared_writes.cuh"

namespace quire::cuda {

// Instructions of sm_90 for work that runs beside the thread that started it (PTX ISA: mbarrier,
// cp.async.bulk.tensor, barrier, setmaxnreg). Shared memory is addressed by its 32-bit address.

__device__ inline unsigned shared_address_of(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// A barrier in shared memory, 8 bytes. Its phases alternate in parity, beginning with 0.
struct MemoryBarrier {
  static __device__ void create(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
  }
  // Makes created barriers known to the copy engine.
  static __device__ void publish() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  static __device__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  }
  // Arrives and lets the phase last until so many more bytes have been copied.
  static __device__ void arrive_expecting(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
  }
  // Whether the phase of this parity has ended.
  static __device__ bool ended(unsigned barrier, int parity) {
    int done;
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.b32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    return done != 0;
  }
  // Waits for the end of the phase of this parity.
  static __device__ void wait(unsigned barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra.uni finished;\n"
        "bra.uni again;\n"
        "finished:\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
  }
};

// 16 bytes of shared memory.
__device__ inline void load_shared(unsigned (&to)[4], unsigned from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
__device__ inline void store_shared(unsigned to, const unsigned (&from)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]),
               "r"(from[2]), "r"(from[3])
               : "memory");
}

__device__ inline void store_shared(unsigned to, float4 from) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(from.x), "f"(from.y),
               "f"(from.z), "f"(from.w)
               : "memory");
}
__device__ inline void store_shared(unsigned to, float from) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(from) : "memory");
}
__device__ inline void store_shared(unsigned to, float2 from) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(from.x), "f"(from.y) : "memory");
}
__device__ inline float2 load_shared_two(unsigned from) {
  float2 to;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to.x), "=f"(to.y) : "r"(from) : "memory");
  return to;
}
__device__ inline float4 load_shared_four(unsigned from) {
  float4 to;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w)
               : "r"(from)
               : "memory");
  return to;
}
__device__ inline float load_shared(unsigned from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
  return value;
}

// Named barriers of a thread block; 0 is __syncthreads.
__device__ inline void sync_named(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_named(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<unsigned long long>(&map))
               : "memory");
}

// Copies the map's box from the given place, innermost coordinate first; elements outside the
// tensor become zeros. The barrier is told of the bytes.
__device__ inline void copy_box(unsigned to, const CUtensorMap& map, unsigned barrier, int x, int y,
                                int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(reinterpret_cast<unsigned long long>(&map)), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void copy_box(unsigned to, const CUtensorMap& map, unsigned barrier, int x, int y,
                                int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(reinterpret_cast<unsigned long long>(&map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w),
      "r"(v)
      : "memory");
}

// Copies `bytes`, a multiple of 16, from one place of global memory.
__device__ inline void copy_bytes(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}

// Gives registers of this warpgroup back, or takes them until it has so many a thread.
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace quire::cuda
