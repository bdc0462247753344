#include "cpu/lanes_avx2.h"
#include "cpu/row_table.h"

namespace quire::cpu {

extern const RowKernels kAvx2RowKernels;
const RowKernels kAvx2RowKernels = row_table<Avx2Lanes>();

}  // namespace quire::cpu
