#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_64(KvType type) {
  switch (type) {
    case KvType::bf16:
      return decode_instance<KvFormat<KvType::bf16>, 64>();
    case KvType::f16:
      return decode_instance<KvFormat<KvType::f16>, 64>();
    case KvType::int8:
      return decode_instance<KvFormat<KvType::int8>, 64>();
    case KvType::fp8:
      return decode_instance<KvFormat<KvType::fp8>, 64>();
    default:
      return {};
  }
}

}  // namespace quire::cuda::hopper
