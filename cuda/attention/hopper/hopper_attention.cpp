#include "attention/hopper/hopper_attention.h"

#include <algorithm>

#include "attention/hopper/forward_kernels.h"
#include "attention/hopper/tensor_map.h"
#include "base/error.h"

namespace quire::cuda {
namespace {

using namespace hopper;

constexpr float kLog2E = 1.4426950408889634f;
constexpr int kLeastTileRows = 128;
constexpr int kWarpgroupRows = 64;  // fewer cost as much

// Rows of the longest sequence up to which a short policy is used.
constexpr int kShortRows = 1024;

struct Entry {
  KvType type;
  int head_size;
  ForwardKernel (*kernel)(const ForwardChoice& choice);
};
constexpr Entry kEntries[] = {
    {KvType::bf16, 64, forward_kernel_64},       {KvType::bf16, 96, forward_kernel_96},
    {KvType::bf16, 128, forward_kernel_128},     {KvType::bf16, 192, forward_kernel_192},
    {KvType::bf16, 256, forward_kernel_256},     {KvType::f16, 64, half_forward_kernel_64},
    {KvType::f16, 96, half_forward_kernel_96},   {KvType::f16, 128, half_forward_kernel_128},
    {KvType::f16, 192, half_forward_kernel_192}, {KvType::f16, 256, half_forward_kernel_256},
    {KvType::fp8, 64, fp8_forward_kernel_64},    {KvType::fp8, 128, fp8_forward_kernel_128},
};

ForwardKernel kernel_for(const PagedAttentionCall& call, const HopperOptions& options) {
  for (const Entry& entry : kEntries) {
    if (entry.type == call.kv.type && entry.head_size == call.kv.head_size) {
      return entry.kernel(
          {call.soft_cap > 0, options.causal && call.sequences.max_rows <= kShortRows});
    }
  }
  return {};
}

int log2_of(int power) {
  int shift = 0;
  while ((1 << shift) < power) ++shift;
  return shift;
}

TileListArgs list_args(const PagedAttentionCall& call, const HopperOptions& options,
                       const ForwardPolicy& policy) {
  const KvView& kv = call.kv;
  const int key_bytes = 2 * kv.head_size * policy.element_bytes;
  std::byte* memory = options.tiles != nullptr ? options.tiles : call.workspace;
  TileListArgs args{};
  args.sequences = call.sequences;
  args.tile_rows = policy.rows();
  args.kv_heads = kv.kv_heads;
  args.group = call.heads / kv.kv_heads;
  args.section_heads = section_heads(kv.kv_heads, call.sequences.max_keys, key_bytes);
  args.section_keys = std::max<int>(1, kSectionBytes / (args.section_heads * key_bytes));
  args.block_keys = policy.block_keys;
  args.window = call.window;
  args.causal = options.causal;
  args.least_rows = options.least_rows;
  args.list = tile_list_layout(
      {call.sequences.total_rows, call.sequences.count, policy.rows(), kv.kv_heads}, memory);
  return args;
}

ForwardArgs forward_args(const PagedAttentionCall& call, const HopperOptions& options,
                         const TileListArgs& list, int box) {
  ForwardArgs args{};
  args.output = call.output;
  args.log_sum_exp = options.log_sum_exp;
  args.pages = call.sequences.pages;
  const unsigned tokens = call.kv.kv_heads * call.kv.page_size;
  args.slab = call.kv.base + call.kv.layer_offset;
  args.page_bytes = call.kv.page_bytes;
  args.value_offset = tokens * call.kv.head_size * kv_element_bytes(call.kv.type);
  args.key_scale_offset = 2 * args.value_offset;
  args.value_scale_offset = args.key_scale_offset + tokens * sizeof(float);
  args.sinks = call.sinks;
  args.list = list.list;
  args.rows = call.sequences.total_rows;
  args.heads = call.heads;
  args.kv_heads = call.kv.kv_heads;
  args.group = list.group;
  args.heads_per_entry = list.section_heads * list.group;
  args.page_shift = log2_of(call.kv.page_size);
  args.box_shift = log2_of(box);
  args.window = call.window;
  args.causal = options.causal;
  args.score_factor = call.scale * kLog2E;
  args.soft_cap = call.soft_cap * kLog2E;
  args.soft_cap_inner = call.soft_cap > 0 ? 2 * kLog2E * call.scale / call.soft_cap : 0;
  return args;
}

}  // namespace

Status hopper::list_forward_tiles(const Launch& launch, const PagedAttentionCall& call,
                                  const HopperOptions& options, const ForwardKernel& kernel) {
  return launch_tile_list(launch, list_args(call, options, kernel.policy));
}

Status hopper::launch_forward(const Launch& launch, const PagedAttentionCall& call,
                              const HopperOptions& options, const ForwardKernel& kernel) {
  const KvView& kv = call.kv;
  const SequenceTable& sequences = call.sequences;
  if (sequences.count == 0 || sequences.total_rows == 0) return {};
  const ForwardPolicy& policy = kernel.policy;
  const int box = box_tokens(kv.page_size, policy.block_keys);
  const TileListArgs tiles = list_args(call, options, policy);
  ForwardArgs args = forward_args(call, options, tiles, box);
  Status status = query_map(args.query, call.query, sequences.total_rows, call.heads, kv.head_size,
                            {1, policy.rows()}, policy.query_row());
  if (!status) return status;
  if (status = kv_map(args.kv, kv, box, policy.key_row()); !status) return status;
  if (options.tiles == nullptr) {
    if (status = launch_tile_list(launch, tiles); !status) return status;
  }
  const void* function = reinterpret_cast<const void*>(kernel.kernel);
  status = status_of(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          kernel.shared_bytes),
                     "Hopper attention");
  if (!status) return status;
  void* parameters[] = {&args};
  return status_of(cudaLaunchKernel(function, dim3(launch.multiprocessors), dim3(policy.threads()),
                                    parameters, kernel.shared_bytes, launch.stream),
                   "Hopper attention");
}

bool hopper_attention_takes(int compute_capability, const PagedAttentionCall& call) {
  const KvView& kv = call.kv;
  return compute_capability == 90 && call.scale > 0 && kernel_for(call, {}).kernel != nullptr &&
         kv.kv_heads > 0 && call.heads % kv.kv_heads == 0 && kv.page_size >= 16 &&
         (kv.page_size & (kv.page_size - 1)) == 0 && kv.page_bytes % 16 == 0 &&
         kv.layer_offset % 16 == 0 && reinterpret_cast<std::uintptr_t>(kv.base) % 16 == 0;
}

HopperShare hopper_share(const Launch& launch, const PagedAttentionCall& call) {
  if (launch.deterministic || !hopper_attention_takes(launch.compute_capability, call)) return {};
  const SequenceTable& sequences = call.sequences;
  const int tile_rows = kernel_for(call, {}).policy.rows();
  const int least_rows = kWarpgroupRows;
  if (sequences.max_rows < least_rows) return {};
  const bool alike = sequences.total_rows == sequences.count * sequences.max_rows;
  // Of the others no more is known here than how many rows they have together.
  const int longest_tiles = (sequences.max_rows + tile_rows - 1) / tile_rows;
  const int tiles =
      alike ? sequences.count * longest_tiles
            : std::max(longest_tiles,
                       (sequences.total_rows - sequences.count * least_rows) / tile_rows);
  if (2 * tiles * call.heads < launch.multiprocessors) return {};
  return {least_rows, alike};
}

std::size_t hopper_workspace_bytes(int max_rows, int max_sequences, int kv_heads) {
  return tile_list_bytes({max_rows, max_sequences, kLeastTileRows, kv_heads});
}

Status list_hopper_tiles(const Launch& launch, const PagedAttentionCall& call,
                         const HopperOptions& options) {
  return list_forward_tiles(launch, call, options, kernel_for(call, options));
}

Status hopper_attention(const Launch& launch, const PagedAttentionCall& call,
                        const HopperOptions& options) {
  if (!hopper_attention_takes(90, call)) {
    return error(StatusCode::unsupported,
                 "Hopper attention of head size {} with KV type {}, pages of {} tokens, scale {}: "
                 "sizes are 64, 96, 128, 192, 256 in bf16 and f16, 64 and 128 in fp8, pages are "
                 "of 16 tokens or more, the scale is positive",
                 call.kv.head_size, static_cast<int>(call.kv.type), call.kv.page_size, call.scale);
  }
  return launch_forward(launch, call, options, kernel_for(call, options));
}

}  // namespace quire::cuda
