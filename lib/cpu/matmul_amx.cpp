#include "cpu/matmul_amx_tile.h"
#include "cpu/matmul_kernels.h"

namespace quire::cpu {
namespace {

constexpr int kIntegerTokens = 16;  // fewer leave a tile partly empty

}  // namespace

void multiply_amx(const MatmulArgs& args) {
  if (args.form == MatmulForm::bfloat_tiles) return multiply_amx_bfloat(args);
  multiply_avx512_bf16(args);
}

void multiply_amx_int8(const MatmulArgs& args) {
  const bool fills = args.form == MatmulForm::integer && args.tokens >= kIntegerTokens;
  return fills ? multiply_amx_integer(args) : multiply_amx(args);
}

}  // namespace quire::cpu
