#include "cpu/lanes_scalar.h"
#include "cpu/row_table.h"

namespace quire::cpu {

extern const RowKernels kScalarRowKernels;
const RowKernels kScalarRowKernels = row_table<ScalarLanes>();

}  // namespace quire::cpu
