#include "attention/paged_attention.h"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "attention/hopper/decode.h"
#include "attention/hopper/hopper_attention.h"
#include "attention/hopper/prefix.h"
#include "attention/kernels.h"
#include "attention/merge.h"
#include "attention/tile_policy.h"
#include "base/dependent_launch.h"
#include "base/error.h"

namespace quire::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kHeadSizes[] = {16, 24, 32, 64, 80, 96, 128, 192, 256};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

PlanShape shape_of(const Launch& launch, const PagedAttentionCall& call) {
  return {call.sequences.total_rows, call.sequences.count,    call.heads,
          call.kv.kv_heads,          call.sequences.max_keys, launch.multiprocessors};
}

// A plan of the portable kernels, and behind it the tiles of the Hopper kernels.
std::size_t plans_bytes(const PlanShape& shape) {
  return plan_bytes(shape) + hopper_workspace_bytes(shape.rows, shape.sequences, shape.heads);
}

// Parts of the workspace; all grow with each of the limits.
struct Workspace {
  std::size_t partial, partial_states, carry, plan, total;

  Workspace(const PlanShape& shape, int head_size) {
    const std::size_t rows = plan_layout(shape, nullptr).partial_rows;
    const int width = tile_width(head_size);
    const std::size_t threads_rows =
        static_cast<std::size_t>(shape.multiprocessors * large_policy(width).blocks_per_sm) *
        kLargeRows;
    partial = 0;
    partial_states = partial + aligned(rows * head_size * sizeof(float));
    carry = partial_states + aligned(rows * sizeof(float2));
    plan = carry + aligned(threads_rows * width * sizeof(float));
    total = plan + plans_bytes(shape);
  }
};

Status check(const PagedAttentionCall& call) {
  const KvView& kv = call.kv;
  if (kv.kv_heads < 1 || call.heads % kv.kv_heads != 0) {
    return error(StatusCode::unsupported, "{} query heads for {} key-value heads", call.heads,
                 kv.kv_heads);
  }
  if (attention_kernels(kv.type, kv.head_size).small.kernel == nullptr) {
    return error(
        StatusCode::unsupported,
        "attention of head size {} with KV type {}: sizes are {} and types f16, bf16, int8, fp8",
        kv.head_size, static_cast<int>(kv.type), fmt::join(kHeadSizes, ", "));
  }
  if (kv.page_size < 8 || kv.page_size > 128 || (kv.page_size & (kv.page_size - 1)) != 0) {
    return error(StatusCode::unsupported,
                 "attention over pages of {} tokens: sizes are 8, 16, 32, 64, 128", kv.page_size);
  }
  if (kv.type == KvType::fp8 && kv.page_size < kFp8Box) {
    return error(StatusCode::unsupported, "attention over fp8 pages of {} tokens: at least {}",
                 kv.page_size, kFp8Box);
  }
  return {};
}

int page_shift(int page_size) {
  int shift = 0;
  while ((1 << shift) < page_size) ++shift;
  return shift;
}

HopperOptions hopper_options(const HopperShare& share, const PlanShape& shape, std::byte* plans) {
  HopperOptions options;
  options.least_rows = share.all ? 0 : share.least_rows;
  options.tiles = plans + plan_bytes(shape);
  return options;
}

// Most rows of a sequence that is left to the portable kernels.
int most_portable_rows(const HopperShare& share, const SequenceTable& sequences) {
  return share.least_rows > 0 ? share.least_rows - 1 : sequences.max_rows;
}

// Whether the keys that sequences share are read once for them. Bits would depend on neighbours.
bool reads_prefix_once(const Launch& launch, const PagedAttentionCall& call, const Plan& plan) {
  const long long rows = static_cast<long long>(call.sequences.total_rows) * call.heads;
  return call.sequences.prefix != nullptr && call.sequences.max_rows == 1 &&
         (call.sequences.long_prefix || hopper_prefix_block(launch, call) > 0) &&
         !launch.deterministic && call.window == 0 &&
         call.heads / call.kv.kv_heads <= kSmallTileLimit && rows <= plan.partial_rows;
}

// What the start of an item of small tiles costs, in key blocks of an item: where another warp
// brings the keys and values of the next, little.
constexpr int kItemBlocks = 3;
constexpr int kHopperItemBlocks = 1;

// The prefix's part of a plan at `memory`.
void add_prefix(const Launch& launch, const PagedAttentionCall& call, std::byte* memory,
                PlanArgs& args) {
  if (!reads_prefix_once(launch, call, args.plan)) return;
  args.prefix = call.sequences.prefix;
  args.prefix_block = hopper_prefix_block(launch, call);
  args.prefix_slots = launch.multiprocessors;
  if (args.prefix_block > 0) {
    args.prefix_tiles = hopper_prefix_tiles(call, memory + plan_bytes(shape_of(launch, call)));
  } else {
    args.prefix_block = kKeyBlock;
    args.prefix_slots = args.large_slots;
  }
}

PlanArgs plan_args(const Launch& launch, const PagedAttentionCall& call, const HopperShare& share,
                   std::byte* memory) {
  const AttentionKernels kernels = attention_kernels(call.kv.type, call.kv.head_size);
  const int hopper_blocks = hopper_decode_blocks_per_sm(launch, call);
  const int small_blocks = hopper_blocks > 0 ? hopper_blocks : kernels.small.blocks_per_sm;
  PlanArgs args{};
  args.sequences = call.sequences;
  args.kv_heads = call.kv.kv_heads;
  args.group = call.heads / call.kv.kv_heads;
  args.window = call.window;
  args.small_limit = kSmallTileLimit;
  args.most_tokens = most_portable_rows(share, call.sequences);
  args.small_slots = launch.multiprocessors * small_blocks;
  args.large_slots = launch.multiprocessors * kernels.large.blocks_per_sm;
  args.item_blocks = hopper_blocks > 0 ? kHopperItemBlocks : kItemBlocks;
  args.fixed_splits = launch.deterministic;
  args.plan = plan_layout(shape_of(launch, call), memory);
  add_prefix(launch, call, memory, args);
  return args;
}

AttentionArgs attention_args(const Launch& launch, const PagedAttentionCall& call, const Plan& plan,
                             const Workspace& workspace) {
  const KvView& kv = call.kv;
  const std::uint32_t tokens = kv.kv_heads * kv.page_size;
  AttentionArgs args{};
  args.query = call.query;
  args.output = call.output;
  args.keys = kv.base + kv.layer_offset;
  args.page_bytes = kv.page_bytes;
  args.value_offset = tokens * kv.head_size * kv_element_bytes(kv.type);
  args.key_scale_offset = 2 * args.value_offset;
  args.value_scale_offset = args.key_scale_offset + tokens * 4;
  args.page_shift = page_shift(kv.page_size);
  args.heads = call.heads;
  args.kv_heads = kv.kv_heads;
  args.group = call.heads / kv.kv_heads;
  args.head_size = kv.head_size;
  args.window = call.window;
  args.score_factor = call.scale * 1.4426950408889634f;
  args.soft_cap = call.soft_cap;
  args.soft_cap_inner = call.soft_cap > 0 ? call.scale / call.soft_cap : 0;
  args.fold_splits = launch.deterministic;
  args.plan_is_old = call.plan_is_old;
  args.sinks = call.sinks;
  args.sequences = call.sequences;
  args.plan = plan;
  args.partial = reinterpret_cast<float*>(call.workspace + workspace.partial);
  args.partial_states = reinterpret_cast<float2*>(call.workspace + workspace.partial_states);
  args.carry = reinterpret_cast<float4*>(call.workspace + workspace.carry);
  return args;
}

Status make_plans(const Launch& launch, const PagedAttentionCall& call, std::byte* memory) {
  const PlanShape shape = shape_of(launch, call);
  const HopperShare share = hopper_share(launch, call);
  if (share.least_rows > 0) {
    Status status = list_hopper_tiles(launch, call, hopper_options(share, shape, memory));
    if (!status || share.all) return status;
  }
  return launch_plan(launch, plan_args(launch, call, share, memory));
}

Status launch_tiles(const Launch& launch, const TileKernel& tile, const AttentionArgs& args,
                    const char* what) {
  Status status = status_of(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(tile.kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, tile.shared_bytes),
      what);
  if (!status) return status;
  return launch_dependent(launch, reinterpret_cast<const void*>(tile.kernel), what,
                          {dim3(launch.multiprocessors * tile.blocks_per_sm), dim3(tile.threads),
                           static_cast<std::size_t>(tile.shared_bytes)},
                          args);
}

}  // namespace

AttentionKernels attention_kernels(KvType type, int head_size) {
  if (std::find(std::begin(kHeadSizes), std::end(kHeadSizes), head_size) == std::end(kHeadSizes)) {
    return {};
  }
  switch (tile_width(head_size)) {
    case 32:
      return tile_kernels<32>(type);
    case 64:
      return tile_kernels<64>(type);
    case 96:
      return tile_kernels<96>(type);
    case 128:
      return tile_kernels<128>(type);
    default:
      return tile_kernels<256>(type);
  }
}

std::size_t attention_workspace_bytes(int max_rows, int max_sequences, int heads, int head_size,
                                      int max_keys, int multiprocessors) {
  // Smaller heads run more blocks at once, so take the larger of the two.
  // There are at most as many key-value heads as heads.
  const PlanShape shape{max_rows, max_sequences, heads, heads, max_keys, multiprocessors};
  return std::max(Workspace(shape, head_size).total,
                  Workspace(shape, std::min(head_size, 128)).total);
}

std::size_t attention_plan_bytes(int max_rows, int max_sequences, int heads, int max_keys,
                                 int multiprocessors) {
  return plans_bytes({max_rows, max_sequences, heads, heads, max_keys, multiprocessors});
}

Status plan_attention(const Launch& launch, const PagedAttentionCall& call) {
  if (Status status = check(call); !status) return status;
  return make_plans(launch, call, call.plan);
}

Status paged_attention(const Launch& launch, const PagedAttentionCall& call) {
  if (Status status = check(call); !status) return status;
  const SequenceTable& sequences = call.sequences;
  if (sequences.count == 0 || sequences.total_rows == 0) return {};
  const PlanShape shape = shape_of(launch, call);
  const Workspace workspace(shape, call.kv.head_size);
  std::byte* plan_memory = call.plan != nullptr ? call.plan : call.workspace + workspace.plan;
  if (call.plan == nullptr) {
    if (Status status = make_plans(launch, call, plan_memory); !status) return status;
  }
  const HopperShare share = hopper_share(launch, call);
  if (share.least_rows > 0) {
    Status status = hopper_attention(launch, call, hopper_options(share, shape, plan_memory));
    if (!status || share.all) return status;
  }
  const Plan plan = plan_layout(shape, plan_memory);
  const AttentionArgs args = attention_args(launch, call, plan, workspace);
  const AttentionKernels kernels = attention_kernels(call.kv.type, call.kv.head_size);
  const int most_rows = most_portable_rows(share, sequences) * args.group;  // of one sequence
  const bool alike = sequences.total_rows == sequences.count * sequences.max_rows;
  const bool prefix = reads_prefix_once(launch, call, plan);
  if (prefix && hopper_prefix_block(launch, call) > 0) {
    Status status = hopper_prefix(launch, call, args,
                                  hopper_prefix_tiles(call, plan_memory + plan_bytes(shape)));
    if (!status) return status;
  } else if (most_rows > kSmallTileLimit || prefix) {
    if (Status status = launch_tiles(launch, kernels.large, args, "attention of large tiles");
        !status) {
      return status;
    }
  }
  if (most_rows <= kSmallTileLimit || !alike) {
    Status status = hopper_decode_blocks_per_sm(launch, call) > 0
                        ? hopper_decode(launch, call, args)
                        : launch_tiles(launch, kernels.small, args, "attention of small tiles");
    if (!status) return status;
  }
  if (sequences.max_keys <= kSplitKeys || most_rows <= kSmallTileLimit) return {};
  const int tiles = sequences.count * 2 + sequences.total_rows * args.group / kSmallRows;
  return launch_merge(launch, args, tiles);
}

}  // namespace quire::cuda
