#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_192(KvType type) {
  return decode_instance_of<192, KvType::bf16, KvType::f16, KvType::int8>(type);
}

}  // namespace quire::cuda::hopper
