#include "attention/hopper/decode.cuh"

namespace quire::cuda::hopper {

DecodeKernel decode_kernel_96(KvType type) {
  switch (type) {
    case KvType::bf16:
      return decode_instance<KvFormat<KvType::bf16>, 96>();
    case KvType::f16:
      return decode_instance<KvFormat<KvType::f16>, 96>();
    default:
      return {};
  }
}

}  // namespace quire::cuda::hopper
