#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_256(KvType type) {
  switch (type) {
    case KvType::bf16:
      return decode_instance<KvFormat<KvType::bf16>, 256>();
    case KvType::f16:
      return decode_instance<KvFormat<KvType::f16>, 256>();
    case KvType::int8:
      return decode_instance<KvFormat<KvType::int8>, 256>();
    case KvType::fp8:
      return decode_instance<KvFormat<KvType::fp8>, 256>();
    default:
      return {};
  }
}

}  // namespace quire::cuda::hopper
