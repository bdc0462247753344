#pragma once

#include <cstdint>

#include "base/dependent_kernel.cuh"
#include "base/shared_writes.cuh"

// The PTX instructions of the products, one function each.
namespace quire::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// d += a b: a 16 x 16 (weights), b 16 x 8 (tokens), bfloat16 with float32 sums.
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit elements; each lane gives the address of one row.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// 16 bytes to shared memory, not through L1; with `valid` false zeros, and nothing is read.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}
__device__ __forceinline__ void copy_async_or_zero(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `kPending` groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Barriers in shared memory: a phase ends after `arrivals` arrivals and the expected bytes.
__device__ __forceinline__ void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier)
               : "memory");
}
// Arrives when the copies that this thread has started so far have arrived.
__device__ __forceinline__ void arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, std::uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
#else
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
#endif
}
// Whether the phase has ended.
__device__ __forceinline__ bool test_barrier(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{ .reg .pred done; mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
      "selp.b32 %0, 1, 0, done; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Bulk copies, whose bytes a barrier counts; and clusters (compute capability 9.0).
#if __CUDA_ARCH__ >= 900
inline constexpr bool kBulkCopies = true;
// True for one lane of a whole warp.
__device__ __forceinline__ bool elect_lane() {
  std::uint32_t elected;
  asm volatile("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.b32 %0, 1, 0, one; }"
               : "=r"(elected));
  return elected != 0;
}
__device__ __forceinline__ void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// Waits for all threads of the cluster; what they wrote before arriving is then visible.
__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void sync_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}
// The same place in the shared memory of the cluster's thread block `rank`; and a load from there.
__device__ __forceinline__ std::uint32_t shared_of_peer(std::uint32_t address, int rank) {
  std::uint32_t to;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(address), "r"(rank));
  return to;
}
__device__ __forceinline__ float4 load_from_peer(std::uint32_t from) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from)
               : "memory");
  return v;
}
#else
inline constexpr bool kBulkCopies = false;
__device__ __forceinline__ bool elect_lane() {
  return threadIdx.x % 32 == 0;
}
__device__ __forceinline__ void fence_barriers() {}
__device__ __forceinline__ void expect_bytes(std::uint32_t, std::uint32_t) {}
__device__ __forceinline__ void copy_bulk(std::uint32_t, const void*, std::uint32_t,
                                          std::uint32_t) {}
__device__ __forceinline__ void sync_cluster() {}
#endif

// A barrier of `threads` threads of a block; `id` 1 ... 15.
__device__ __forceinline__ void group_barrier(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Arrives at it without waiting.
__device__ __forceinline__ void group_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Products and sums of two bfloat16 in a register, each rounded once.
__device__ __forceinline__ std::uint32_t multiply2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{ .reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 %0, %1, %2, z; }"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t multiply_add2(std::uint32_t a, std::uint32_t b,
                                                       std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
// a - b for integers that bfloat16 holds exactly.
__device__ __forceinline__ std::uint32_t subtract2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("{ .reg .b32 one; mov.b32 one, 0xbf80bf80; fma.rn.bf16x2 %0, %2, one, %1; }"
      : "=r"(d)
      : "r"(a), "r"(b));
  return d;
}
// word & mask | bits, in one instruction.
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t word, std::uint32_t mask,
                                                   std::uint32_t bits) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(word), "r"(mask), "r"(bits));
  return d;
}
// One half of a register in both halves; the compiler makes it an operand modifier.
template <bool kHigh>
__device__ __forceinline__ std::uint32_t both_halves(std::uint32_t word) {
  std::uint32_t d;
  if constexpr (kHigh) {
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h}; }" : "=r"(d) : "r"(word));
  } else {
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l}; }" : "=r"(d) : "r"(word));
  }
  return d;
}
// {low, high} rounded to bfloat16.
__device__ __forceinline__ std::uint32_t pack2(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

}  // namespace quire::cuda
