#include "matmul/wide_bfloat.cuh"
#include "matmul/wide_bfloat.h"

namespace quire::cuda {

const void* wide_bfloat_kernel(int token_tiles) {
  switch (token_tiles) {
    case 2:
      return reinterpret_cast<const void*>(wide_bfloat<2>);
    case 4:
      return reinterpret_cast<const void*>(wide_bfloat<4>);
    case 8:
      return reinterpret_cast<const void*>(wide_bfloat<8>);
    case 16:
      return reinterpret_cast<const void*>(wide_bfloat<16>);
    default:
      return nullptr;
  }
}

}  // namespace quire::cuda
