#include "cpu/lanes_avx512.h"
#include "cpu/row_table.h"

namespace quire::cpu {

extern const RowKernels kAvx512RowKernels;
const RowKernels kAvx512RowKernels = row_table<Avx512Lanes>();

}  // namespace quire::cpu
