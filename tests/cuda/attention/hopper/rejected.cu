// What check_compiler_report.sh has to reject.
#include "attention/hopper/asynchronous.cuh"
#include "attention/hopper/wgmma.cuh"

namespace quire::cuda {

// No register count at entry to divide, and sums touched while a product is under way.
__global__ void serialised(float* values, unsigned long long operand) {
  give_registers<24>();
  float sums[32];
  for (int i = 0; i < 32; ++i) sums[i] = values[i];
  begin_products();
  multiply_rows<__nv_bfloat16, 1>(sums, operand, operand);
  for (int i = 0; i < 32; ++i) sums[i] *= 2;
  multiply_rows<__nv_bfloat16, 1>(sums, operand + 2, operand);
  commit_products();
  wait_products<0>();
  for (int i = 0; i < 32; ++i) values[i] = sums[i];
}

}  // namespace quire::cuda
