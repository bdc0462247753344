#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace quire::cuda {

// Products of a warpgroup (PTX ISA, wgmma): sums [64][N] += A [64][K] B [K][N] with float sums,
// where K is 32 bytes of elements. A thread holds of rows 16 * warp + lane / 4 (elements 0, 1) and
// that + 8 (2, 3) the columns 8 * i + 2 * (lane % 4) and the next, at sums[4 * i ...]. Registers of
// a product under way may not be touched; hold() keeps the compiler from moving accesses across.

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

// Descriptors of operands in shared memory. Swizzled as the copy engine does it: atoms of 8 rows of
// kRowBytes (128 or 64), the next 8 rows `stride` bytes on. Row-wise: rows are M or N, the elements
// of a row K; one step of K is 32 bytes. Column-wise (16 bits only): rows are K, the elements of a
// row N; the next of N are `next` bytes on.
template <int kRowBytes>
__device__ inline unsigned long long swizzled_descriptor(unsigned address, unsigned stride,
                                                         unsigned next) {
  static_assert(kRowBytes == 128 || kRowBytes == 64);
  constexpr unsigned long long kSwizzle = kRowBytes == 128 ? 1 : 2;
  return kSwizzle << 62 | static_cast<unsigned long long>(stride >> 4) << 32 |
         static_cast<unsigned long long>(next >> 4) << 16 | (address & 0x3ffff) >> 4;
}
template <int kRowBytes>
__device__ inline unsigned long long rows_descriptor(unsigned address, unsigned stride) {
  return swizzled_descriptor<kRowBytes>(address, stride, 16);
}
template <int kRowBytes>
__device__ inline unsigned long long columns_descriptor(unsigned address, unsigned stride,
                                                        unsigned next) {
  return swizzled_descriptor<kRowBytes>(address, stride, next);
}
// Row-wise without a swizzle: matrices of 8 rows of 16 bytes, each 128 bytes in a piece, the next 8
// rows 128 bytes on, the next 16 bytes of K `next` bytes on.
__device__ inline unsigned long long matrices_descriptor(unsigned address, unsigned next) {
  return static_cast<unsigned long long>(128 >> 4) << 32 |
         static_cast<unsigned long long>(next >> 4) << 16 | (address & 0x3ffff) >> 4;
}

// How an element's type is written in the instruction: its shape and types, and whether operands in
// shared memory are column-wise, which 8-bit elements cannot be.
template <class Element>
struct ElementNames;
template <>
struct ElementNames<__nv_bfloat16> {
  static constexpr char kShape[] = "k16.f32.bf16.bf16";
  static constexpr char kRows[] = ", 0, 0", kColumns[] = ", 1";
};
template <>
struct ElementNames<__half> {
  static constexpr char kShape[] = "k16.f32.f16.f16";
  static constexpr char kRows[] = ", 0, 0", kColumns[] = ", 1";
};
template <>
struct ElementNames<__nv_fp8_e4m3> {
  static constexpr char kShape[] = "k32.f32.e4m3.e4m3";
  static constexpr char kRows[] = "", kColumns[] = "";
};

#define QUIRE_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define QUIRE_SUMS_8(i) QUIRE_SUMS_4(i), QUIRE_SUMS_4(i + 4)
#define QUIRE_SUMS_16(i) QUIRE_SUMS_8(i), QUIRE_SUMS_8(i + 8)
#define QUIRE_SUMS_32(i) QUIRE_SUMS_16(i), QUIRE_SUMS_16(i + 16)

// A and B in shared memory, both row-wise. kAdd 0: the sums start anew.
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[32], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64%35 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1%36;\n}\n"
      : QUIRE_SUMS_32(0)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[40], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %42, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80%43 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39}, "
      "%40, %41, add, 1, 1%44;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_8(32)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[48], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96%51 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, add, 1, 1%52;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_16(32)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[56], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %58, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n112%59 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55}, "
      "%56, %57, add, 1, 1%60;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_16(32), QUIRE_SUMS_8(48)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[64], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128%67 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1%68;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[80], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160%83 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
      "%80, %81, add, 1, 1%84;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_16(64)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[88], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %90, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n176%91 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87}, "
      "%88, %89, add, 1, 1%92;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_16(64), QUIRE_SUMS_8(80)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}
template <class Element, int kAdd>
__device__ inline void multiply_rows(float (&sums)[96], unsigned long long a,
                                     unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192%99 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, add, 1, 1%100;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_32(64)
      : "l"(a), "l"(b), "n"(kAdd), "C"(ElementNames<Element>::kShape),
        "C"(ElementNames<Element>::kRows));
}

// A in registers, in 16 bits as four pairs of a thread: (row, columns 0 ... 7), (row + 8, same),
// (row, columns 8 ... 15), (row + 8, same); in 8 bits as four quadruples, each of four neighbouring
// columns of 16. B in shared memory: column-wise in 16 bits, row-wise in 8 bits. kAdd as above.
template <class Element, int kAdd>
__device__ inline void multiply_registers(float (&sums)[32], const unsigned (&a)[4],
                                          unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64%38 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1%39;\n}\n"
      : QUIRE_SUMS_32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd),
        "C"(ElementNames<Element>::kShape), "C"(ElementNames<Element>::kColumns));
}
template <class Element, int kAdd>
__device__ inline void multiply_registers(float (&sums)[48], const unsigned (&a)[4],
                                          unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96%54 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
      "{%48, %49, %50, %51}, %52, add, 1, 1%55;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_16(32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd),
        "C"(ElementNames<Element>::kShape), "C"(ElementNames<Element>::kColumns));
}
template <class Element, int kAdd>
__device__ inline void multiply_registers(float (&sums)[64], const unsigned (&a)[4],
                                          unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128%70 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1%71;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd),
        "C"(ElementNames<Element>::kShape), "C"(ElementNames<Element>::kColumns));
}
template <class Element, int kAdd>
__device__ inline void multiply_registers(float (&sums)[96], const unsigned (&a)[4],
                                          unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %101, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192%102 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "{%96, %97, %98, %99}, %100, add, 1, 1%103;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_32(64)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd),
        "C"(ElementNames<Element>::kShape), "C"(ElementNames<Element>::kColumns));
}
template <class Element, int kAdd>
__device__ inline void multiply_registers(float (&sums)[128], const unsigned (&a)[4],
                                          unsigned long long b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256%134 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
      "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
      "%126, %127}, "
      "{%128, %129, %130, %131}, %132, add, 1, 1%135;\n}\n"
      : QUIRE_SUMS_32(0), QUIRE_SUMS_32(32), QUIRE_SUMS_32(64), QUIRE_SUMS_32(96)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd),
        "C"(ElementNames<Element>::kShape), "C"(ElementNames<Element>::kColumns));
}

#undef QUIRE_SUMS_32
#undef QUIRE_SUMS_16
#undef QUIRE_SUMS_8
#undef QUIRE_SUMS_4

}  // namespace quire::cuda
