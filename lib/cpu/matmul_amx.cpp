#include "cpu/matmul_amx_tile.h"
#include "cpu/matmul_kernels.h"

namespace quire::cpu {
namespace {

constexpr int kIntegerTokens = 8;  // fewer are faster without tiles

}  // namespace

void multiply_amx(const MatmulArgs& args) {
  switch (args.form) {
    case MatmulForm::integer:
      return args.tokens < kIntegerTokens ? multiply_avx512(args) : multiply_amx_integer(args);
    case MatmulForm::bfloat_tiles:
      return multiply_amx_bfloat(args);
    case MatmulForm::expanded:
    case MatmulForm::plain:
    case MatmulForm::bfloat_pairs:
      return multiply_avx512_bf16(args);
  }
}

}  // namespace quire::cpu
