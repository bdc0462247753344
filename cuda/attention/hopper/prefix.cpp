#include "attention/hopper/prefix.h"

#include <bit>

#include "attention/hopper/forward_kernels.h"
#include "attention/hopper/tensor_map.h"
#include "attention/tile_policy.h"
#include "base/dependent_launch.h"

namespace quire::cuda {
namespace {

using namespace hopper;

ForwardKernel kernel_for(const PagedAttentionCall& call) {
  if (call.kv.type != KvType::bf16 || call.soft_cap > 0) return {};
  if (call.kv.head_size == 64) return prefix_kernel_64();
  if (call.kv.head_size == 128) return prefix_kernel_128();
  return {};
}

}  // namespace

int hopper_prefix_block(const Launch& launch, const PagedAttentionCall& call) {
  const ForwardKernel kernel = kernel_for(call);
  return kernel.kernel != nullptr && hopper_attention_takes(launch.compute_capability, call)
             ? kernel.policy.block_keys
             : 0;
}

TileList hopper_prefix_tiles(const PagedAttentionCall& call, std::byte* memory) {
  return tile_list_layout({call.sequences.total_rows, call.sequences.count, kLargeRows, call.heads},
                          memory);
}

Status hopper_prefix(const Launch& launch, const PagedAttentionCall& call, const AttentionArgs& all,
                     const TileList& tiles) {
  const ForwardKernel kernel = kernel_for(call);
  const ForwardPolicy& policy = kernel.policy;
  const int box = box_tokens(call.kv.page_size, policy.block_keys);
  ForwardArgs args{};
  args.pages = call.sequences.pages;
  args.slab = all.keys;
  args.page_bytes = all.page_bytes;
  args.list = tiles;
  args.partial = all.partial;
  args.partial_states = all.partial_states;
  args.query_rows = policy.rows() / all.group * all.group;
  args.rows = call.sequences.total_rows;
  args.heads = all.heads;
  args.kv_heads = args.heads_per_entry = all.kv_heads;
  args.group = all.group;
  args.page_shift = all.page_shift;
  args.box_shift = std::countr_zero(static_cast<unsigned>(box));
  args.score_factor = all.score_factor;
  Status status = query_map(args.query, call.query, args.rows, args.heads, call.kv.head_size,
                            {all.group, policy.rows() / all.group}, policy.query_row());
  if (!status) return status;
  if (status = kv_map(args.kv, call.kv, box, policy.key_row()); !status) return status;
  constexpr const char* kWhat = "Hopper attention of a shared prefix";
  const void* function = reinterpret_cast<const void*>(kernel.kernel);
  status = status_of(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          kernel.shared_bytes),
                     kWhat);
  if (!status) return status;
  return launch_dependent(launch, function, kWhat,
                          {dim3(launch.multiprocessors), dim3(policy.threads()),
                           static_cast<std::size_t>(kernel.shared_bytes)},
                          args);
}

}  // namespace quire::cuda
