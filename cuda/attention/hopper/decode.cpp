#include "attention/hopper/decode.h"

#include "attention/hopper/decode_kernels.h"
#include "attention/hopper/tensor_map.h"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

using namespace hopper;

DecodeKernel kernel_for(const KvView& kv) {
  switch (kv.head_size) {
    case 64:
      return decode_kernel_64(kv.type);
    case 96:
      return decode_kernel_96(kv.type);
    case 128:
      return decode_kernel_128(kv.type);
    case 192:
      return decode_kernel_192(kv.type);
    case 256:
      return decode_kernel_256(kv.type);
    default:
      return {};
  }
}

}  // namespace

int hopper_decode_blocks_per_sm(const Launch& launch, const PagedAttentionCall& call) {
  const KvView& kv = call.kv;
  const bool aligned = kv.page_size >= kDecodeBox && kv.page_bytes % 16 == 0 &&
                       kv.layer_offset % 16 == 0 &&
                       reinterpret_cast<std::uintptr_t>(kv.base) % 16 == 0;
  return launch.compute_capability == 90 && aligned ? kernel_for(kv).blocks_per_sm : 0;
}

Status hopper_decode(const Launch& launch, const PagedAttentionCall& call,
                     const AttentionArgs& args) {
  const DecodeKernel kernel = kernel_for(call.kv);
  DecodeArgs all{};
  all.call = args;
  Status status = kv_map(all.kv, call.kv, kDecodeBox, kernel.row_bytes);
  if (!status) return status;
  const void* function = reinterpret_cast<const void*>(kernel.kernel);
  status = status_of(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          kernel.shared_bytes),
                     "Hopper attention of small tiles");
  if (!status) return status;
  return launch_dependent(launch, function, "Hopper attention of small tiles",
                          {dim3(launch.multiprocessors * kernel.blocks_per_sm),
                           dim3(kernel.threads), static_cast<std::size_t>(kernel.shared_bytes)},
                          all);
}

}  // namespace quire::cuda
