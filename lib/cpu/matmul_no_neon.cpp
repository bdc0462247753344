#include "cpu/matmul_kernels.h"

// For processors without NEON; supports() never offers it there.

namespace quire::cpu {

void quantise_row_neon(const float* values, int columns, ActivationGroup* to, int groups) {
  quantise_row_scalar(values, columns, to, groups);
}
void multiply_neon(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_dotprod(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_i8mm(const MatmulArgs& args) {
  multiply_scalar(args);
}

}  // namespace quire::cpu
