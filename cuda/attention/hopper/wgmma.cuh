#pragma once

namespace quire::cuda {

// Products of a warpgroup (PTX ISA, wgmma): sums [64][N] += A [64][16] B [16][N] in bf16 with float
// sums. A thread holds of rows 16 * warp + lane / 4 (elements 0, 1) and that + 8 (2, 3) the columns
// 8 * i + 2 * (lane % 4) and the next, at sums[4 * i ...]. Registers of a product under way may not
// be touched; hold() keeps the compiler from moving accesses across.

__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kLater groups of products are under way.
template <int kLater>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLater) : "memory");
}

template <int kCount>
__device__ inline void hold(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
__device__ inline void hold(unsigned (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// Descriptors of operands in shared memory in the copy engine's 128-byte swizzle: atoms of 8 rows
// of 128 bytes, the next 8 rows `stride` bytes on. Row-wise: rows are M or N, the 64 elements of a
// row K; 16 of K are 32 bytes. Column-wise: rows are K, the elements of a row 64 of N; the next 64
// of N are the next atom.
constexpr unsigned long long kSwizzle128 = 1ull << 62;
constexpr unsigned kAtomBytes = 1024;

__device__ inline unsigned long long rows_descriptor(unsigned address, unsigned stride) {
  return kSwizzle128 | static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 16 |
         (address & 0x3ffff) >> 4;
}
__device__ inline unsigned long long columns_descriptor(unsigned address, unsigned stride) {
  return kSwizzle128 | static_cast<unsigned long long>(stride >> 4) << 32 |
         static_cast<unsigned long long>(kAtomBytes >> 4) << 16 | (address & 0x3ffff) >> 4;
}

#define QUIRE_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define QUIRE_SUMS_8(i) QUIRE_SUMS_4(i), QUIRE_SUMS_4(i + 4)
#define QUIRE_SUMS_32(i) \
  QUIRE_SUMS_8(i), QUIRE_SUMS_8(i + 8), QUIRE_SUMS_8(i + 16), QUIRE_SUMS_8(i + 24)

// A and B in shared memory, both row-wise. kAdd 0: the sums start anew.
template <int kAdd>
__device__ inline void multiply_rows(float (&sums)[32], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n}\n"
      : QUIRE_SUMS_32(0)
      : "l"(a), "l"(b), "n"(kAdd));
}
template <int kAdd>
__device__ inline void multiply_rows(float (&sums)[40], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %42, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39}, "
      "%40, %41, add, 1, 1, 0, 0;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_8(32)
      : "l"(a), "l"(b), "n"(kAdd));
}
template <int kAdd>
__device__ inline void multiply_rows(float (&sums)[64], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 0;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32)
      : "l"(a), "l"(b), "n"(kAdd));
}
template <int kAdd>
__device__ inline void multiply_rows(float (&sums)[80], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
      "%80, %81, add, 1, 1, 0, 0;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_8(64), QUIRE_SUMS_8(72)
      : "l"(a), "l"(b), "n"(kAdd));
}
template <int kAdd>
__device__ inline void multiply_rows(float (&sums)[88], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %90, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87}, "
      "%88, %89, add, 1, 1, 0, 0;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_8(64), QUIRE_SUMS_8(72), QUIRE_SUMS_8(80)
      : "l"(a), "l"(b), "n"(kAdd));
}

// A in registers, as four pairs of a thread: (row, columns 0 ... 7), (row + 8, same), (row, columns
// 8 ... 15), (row + 8, same). B in shared memory, column-wise.
__device__ inline void multiply_columns(float (&sums)[32], const unsigned (&a)[4],
                                        unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}\n"
      : QUIRE_SUMS_32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_columns(float (&sums)[64], const unsigned (&a)[4],
                                        unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_columns(float (&sums)[128], const unsigned (&a)[4],
                                        unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
      "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
      "%126, %127}, "
      "{%128, %129, %130, %131}, %132, add, 1, 1, 1;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_32(64), QUIRE_SUMS_32(96)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef QUIRE_SUMS_32
#undef QUIRE_SUMS_8
#undef QUIRE_SUMS_4

}  // namespace quire::cuda
