#include "cpu/matmul_kernels.h"

// For processors without these instruction sets; supports() never offers them there.

namespace quire::cpu {

void quantise_row_avx2(const float* values, int columns, ActivationGroup* to, int groups) {
  quantise_row_scalar(values, columns, to, groups);
}
void quantise_row_avx512(const float* values, int columns, ActivationGroup* to, int groups) {
  quantise_row_scalar(values, columns, to, groups);
}
void round_row_avx512_bf16(const float*, int, std::uint16_t*, int, std::int64_t) {}
void multiply_avx2(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_avx_vnni(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_avx512(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_avx512_bf16(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_amx_int8(const MatmulArgs& args) {
  multiply_scalar(args);
}
void multiply_amx(const MatmulArgs& args) {
  multiply_scalar(args);
}

}  // namespace quire::cpu
