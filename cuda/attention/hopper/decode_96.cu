#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_96(KvType type) {
  return decode_instance_of<96, KvType::bf16, KvType::f16>(type);
}

}  // namespace quire::cuda::hopper
