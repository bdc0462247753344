#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_128(KvType type) {
  switch (type) {
    case KvType::bf16:
      return decode_instance<KvFormat<KvType::bf16>, 128>();
    case KvType::f16:
      return decode_instance<KvFormat<KvType::f16>, 128>();
    case KvType::int8:
      return decode_instance<KvFormat<KvType::int8>, 128>();
    case KvType::fp8:
      return decode_instance<KvFormat<KvType::fp8>, 128>();
    default:
      return {};
  }
}

}  // namespace quire::cuda::hopper
