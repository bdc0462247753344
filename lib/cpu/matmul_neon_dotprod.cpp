#include "cpu/matmul_neon_dotprod.h"

namespace quire::cpu {

void multiply_dotprod(const MatmulArgs& args) {
  if (args.form != MatmulForm::integer) return multiply_neon(args);
  visit_packed_format(args.type, [&]<class Format>() {
    multiply_all<IntegerProduct<DotMultiplier, Format>>(args);
  });
}

}  // namespace quire::cpu
