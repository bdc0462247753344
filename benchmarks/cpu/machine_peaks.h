#pragma once

#include "base/thread_pool.h"
#include "cpu/matmul.h"

namespace quire::cpu {

// What all threads of a pool reach together in loops that do nothing else. 0: the instruction set
// has no such instruction.
struct MachinePeaks {
  double integer_gmacs = 0;  // 8-bit products: vpdpbusd, vpmaddubsw or tdpbssd, as the kernels use
  double float_gmacs = 0;    // float32 fused multiply-add
  double bfloat_gmacs = 0;   // vdpbf16ps or tdpbf16ps
  double read_gbytes = 0;    // a second, from memory in huge pages
};

// A clock for work of the pool: of one thread the processor's time, which other processes on the
// machine do not lengthen; of several real time.
double seconds(const ThreadPool& pool);

MachinePeaks measure_peaks(Isa isa, ThreadPool& pool);

}  // namespace quire::cpu
