#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_192(KvType type) {
  switch (type) {
    case KvType::bf16:
      return decode_instance<KvFormat<KvType::bf16>, 192>();
    case KvType::f16:
      return decode_instance<KvFormat<KvType::f16>, 192>();
    case KvType::int8:
      return decode_instance<KvFormat<KvType::int8>, 192>();
    default:
      return {};
  }
}

}  // namespace quire::cuda::hopper
