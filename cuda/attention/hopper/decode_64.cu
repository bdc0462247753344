#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_64(KvType type) {
  return decode_instance_of<64, KvType::bf16, KvType::f16, KvType::int8, KvType::fp8>(type);
}

}  // namespace quire::cuda::hopper
