#include "cpu/isa.h"

namespace quire::cpu {

bool supports(Isa isa) {
  return isa == Isa::scalar;
}

}  // namespace quire::cpu
