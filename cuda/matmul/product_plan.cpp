#include "matmul/product_plan.h"

#include <algorithm>

#include "matmul/kernel_table.h"

namespace quire::cuda {
namespace {

constexpr int kChunks = 16;      // at most
constexpr int kChunkBlocks = 4;  // at least

int ceil_divide(int a, int b) {
  return (a + b - 1) / b;
}

// Costs are in bytes of weights that one multiprocessor reads in that time.
constexpr double kArrivalBytes = 5e3;    // another slice's arrival
constexpr double kSliceBytes = 50e3;     // waiting for other thread blocks' partial sums
constexpr double kLastBytes = 100e3;     // the same in tiles
constexpr double kClusterBytes = 50e3;   // the same in a cluster
constexpr double kAddedBytes = 0.4;      // adding a byte of partial sums
constexpr double kWayBytes = 110e3;      // under way for the full bandwidth
constexpr double kCopyBytes = 250;       // starting a copy of few_tokens
constexpr double kTileBytes = 2.5e3;     // mma.sync of 256 rows, 8 tokens and 64 columns
constexpr double kWideBytes = 0.95e3;    // wgmma of the same
constexpr double kExpandedBytes = 12e3;  // expanding 256 rows and 64 columns to bfloat16
constexpr double kWaveBytes = 100e3;     // starting and ending a tile
constexpr int kMostStages = 16;
constexpr double kStreamBytes = 40e3;             // stream_tokens: the end of a tile
constexpr double kStreamSharedBytes = 100e3;      // the same where a cluster shares its sums
constexpr std::size_t kMostWayBytes = 144 << 10;  // beyond, the rings keep the inputs waiting

bool is_plain(WeightKind kind) {
  return kind == WeightKind::bfloat || kind == WeightKind::float32;
}

// Share of its bandwidth that a multiprocessor reaches with so many warps.
double share_of_warps(WeightKind kind, int warps) {
  return std::min(1.0, is_plain(kind) ? 0.8 + warps / 40.0 : 0.4 + warps / 26.0);
}

// Adding the sums of a group's warps: only while others do not wait for their
// weights. With records its warps have to start anew too.
double sum_bytes(WeightKind kind) {
  return is_plain(kind) ? 0.5e3 : 20e3;
}

struct Cut {
  int slices, group_warps;
};

// A cut of the columns into slices of group_warps chunks. Deterministic sums
// have fixed chunks.
ProductPlan cut_columns(const ProductArgs& args, const Cut& cut) {
  ProductPlan plan;
  const ChunkPlan fixed(args.columns);
  plan.chunk_blocks = fixed.chunk_blocks;
  plan.slice_chunks = cut.group_warps;
  if (!args.partial_chunks) {
    plan.chunk_blocks = std::max(1, ceil_divide(fixed.blocks, cut.slices * cut.group_warps));
  }
  plan.chunks = ceil_divide(fixed.blocks, plan.chunk_blocks);
  if (args.partial_chunks) plan.slice_chunks = ceil_divide(plan.chunks, cut.slices);
  plan.slices = ceil_divide(plan.chunks, plan.slice_chunks);
  return plan;
}

int partials_of_unit(const ProductArgs& args, const ProductPlan& plan) {
  return args.partial_chunks ? plan.chunks : plan.slices;
}

}  // namespace

void count_units(ProductArgs& args, int unit_rows) {
  args.units = 0;
  for (int i = 0; i < args.part_count; ++i) {
    ProductPart& part = args.parts[i];
    part.first_unit = args.units;
    if (args.gated) {
      args.units = ceil_divide(part.end, unit_rows / 2);
      continue;
    }
    part.skipped_units = part.begin / unit_rows;
    args.units += ceil_divide(part.end, unit_rows) - part.skipped_units;
  }
}

ChunkPlan::ChunkPlan(std::int64_t columns)
    : blocks(static_cast<int>((columns + kBlockColumns - 1) / kBlockColumns)),
      chunk_blocks(std::max(kChunkBlocks, ceil_divide(blocks, kChunks))),
      chunks(ceil_divide(blocks, chunk_blocks)) {}

namespace {

// Completes a plan of few_tokens: groups in a thread block, stages, cost.
ProductPlan with_groups(const ProductArgs& args, WeightKind kind, const ProductLimits& limits,
                        ProductPlan plan, int groups, std::size_t partial_bytes) {
  const auto tokens = static_cast<std::size_t>(args.tokens);
  const int warps = groups * plan.slice_chunks;
  const std::size_t input_bytes = tokens * few_input_stride(plan.slice_chunks * plan.chunk_blocks);
  const std::size_t fixed = input_bytes + static_cast<std::size_t>(groups) * 4 + 8 * kInputPieces +
                            static_cast<std::size_t>(warps) * tokens * kSumStride * 4;
  const std::size_t stage =
      static_cast<std::size_t>(warps) * static_cast<std::size_t>(few_stage_bytes(kind) + 16);
  if (warps > kFewWarps || fixed + 2 * stage > limits.shared_bytes) return plan;
  const int peers =
      std::min(std::max(1, limits.multiprocessors / plan.slices), ceil_divide(args.units, groups));
  const int units = ceil_divide(args.units, peers);  // of a thread block
  const int group_units = ceil_divide(units, groups);
  plan.kernel = kernels_of(kind).few;
  plan.groups = groups;
  plan.thread_blocks = plan.slices * peers;
  plan.threads = (warps + 1 + (kind == WeightKind::bfloat ? 0 : kCopyWarps)) * 32;
  plan.unit_stages = ceil_divide(plan.chunk_blocks, few_stage_blocks(kind));
  const int all_stages = std::max(2, group_units * plan.unit_stages);
  const int useful = std::max(3, static_cast<int>(kMostWayBytes / stage));
  plan.stages = std::min(
      {kMostStages, useful, all_stages, static_cast<int>((limits.shared_bytes - fixed) / stage)});
  plan.shared_bytes = fixed + static_cast<std::size_t>(plan.stages) * stage;
  const double way = static_cast<double>(plan.stages) * warps * few_stage_bytes(kind);
  const double copy = plan.slice_chunks * few_stage_bytes(kind) / 2.0;
  const double share = (plan.stages == all_stages ? 1.0 : std::min(1.0, way / kWayBytes)) /
                       (kind == WeightKind::bfloat ? 1.0 : 1.0 + kCopyBytes / copy);
  // A multiprocessor can read faster than its share while others have nothing
  // left to read.
  const double most =
      static_cast<double>(units) * plan.slice_chunks * plan.chunk_blocks * unit_block_bytes(kind);
  const double mean = static_cast<double>(args.units) * args.blocks * unit_block_bytes(kind) /
                      limits.multiprocessors;
  plan.cost =
      std::max(mean, (is_plain(kind) ? 0.7 : 0.9) * most) / (share * share_of_warps(kind, warps)) +
      (plan.slice_chunks > 1 ? group_units * sum_bytes(kind) : 0) + 0.02 * most +
      0.5 * static_cast<double>(input_bytes);
  if (plan.slices > 1) {
    plan.cost += kSliceBytes + plan.slices * kArrivalBytes +
                 2.0 * static_cast<double>(partial_bytes) / plan.slices / peers;
  }
  return plan;
}

void keep_better(ProductPlan& best, const ProductPlan& plan) {
  if (plan.kernel != nullptr && (best.kernel == nullptr || plan.cost < best.cost)) best = plan;
}

}  // namespace

ProductPlan plan_few_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits) {
  ProductPlan best;
  if (args.tokens > kFewTokens) return best;
  for (const int slices : {1, 2, 4, 8, 16}) {
    for (const int group_warps : {16, 8, 4, 2, 1}) {
      const ProductPlan plan = cut_columns(args, {slices, group_warps});
      const std::size_t partial_bytes =
          plan.slices == 1 ? 0
                           : static_cast<std::size_t>(partials_of_unit(args, plan)) *
                                 static_cast<std::size_t>(args.tokens) * kUnitRows * 4 *
                                 static_cast<std::size_t>(args.units);
      if (plan.slices > 1 && (static_cast<std::size_t>(args.units) > limits.counters ||
                              partial_bytes > limits.partial_bytes)) {
        continue;
      }
      for (int groups = 1; groups <= 15; ++groups) {
        keep_better(best, with_groups(args, kind, limits, plan, groups, partial_bytes));
      }
    }
  }
  return best;
}

namespace {

// So many thread blocks of clusters run at a time: not all of a device's processor clusters have a
// multiple of four multiprocessors (30 clusters of four, 16 to 18 of six on an H200 of 132).
int cluster_places(int multiprocessors, int cluster) {
  const int fit = cluster <= 2   ? multiprocessors
                  : cluster <= 4 ? multiprocessors * 10 / 11
                                 : multiprocessors * 3 / 4;
  return std::max(cluster, fit / cluster * cluster);
}

// Plans thread blocks of kTileWarps units and token_tiles * 8 tokens;
// `block_bytes`: the time for a block of 64 columns.
ProductPlan plan_tiles(const ProductArgs& args, const ProductLimits& limits, const void* kernel,
                       int token_tiles, double block_bytes) {
  ProductPlan best;
  const int tiles = ceil_divide(args.units, kTileWarps) * ceil_divide(args.tokens, token_tiles * 8);
  for (const int slices : {1, 2, 4, 8}) {
    ProductPlan plan = cut_columns(args, {slices, 1});
    const std::size_t tile_partials = static_cast<std::size_t>(partials_of_unit(args, plan)) *
                                      kTileWarps * kUnitRows *
                                      static_cast<std::size_t>(token_tiles) * 8 * 4;
    if (plan.slices > 1 &&
        (static_cast<std::size_t>(tiles * plan.slices) > limits.counters ||
         tile_partials * static_cast<std::size_t>(tiles) > limits.partial_bytes)) {
      continue;
    }
    plan.kernel = kernel;
    plan.token_tiles = token_tiles;
    plan.thread_blocks = tiles * plan.slices;
    for (const int cluster : {1, 2, 4}) {
      if (plan.slices % cluster != 0 || (cluster > 1 && !limits.clusters)) continue;
      plan.cluster = cluster;
      const int waves =
          ceil_divide(plan.thread_blocks, cluster_places(limits.multiprocessors, cluster));
      plan.cost = waves * (kWaveBytes + block_bytes * plan.slice_chunks * plan.chunk_blocks);
      if (cluster > 1) plan.cost += kClusterBytes;
      if (plan.slices > cluster) plan.cost += kLastBytes;
      if (plan.slices > 1) {
        plan.cost += kAddedBytes * static_cast<double>(tile_partials) / cluster;
      }
      keep_better(best, plan);
    }
  }
  return best;
}

}  // namespace

ProductPlan plan_many_tokens(const ProductArgs& args, WeightKind kind,
                             const ProductLimits& limits) {
  const int token_tiles = args.tokens <= 32 ? 4 : 8;
  const double block_bytes =
      std::max<double>(kTileWarps * unit_block_bytes(kind), token_tiles * kTileBytes);
  ProductPlan plan =
      plan_tiles(args, limits, kernels_of(kind).tile[token_tiles / 8], token_tiles, block_bytes);
  plan.threads = kTileWarps * 32;
  plan.shared_bytes = static_cast<std::size_t>(tile_shared_bytes(kind, token_tiles));
  return plan.shared_bytes <= limits.shared_bytes ? plan : ProductPlan();
}

ProductPlan plan_wide_tokens(const ProductArgs& args, WeightKind kind,
                             const ProductLimits& limits) {
  ProductPlan best;
  for (const int token_tiles : {4, 8, 16}) {
    const void* kernel = kernels_of(kind).wide[token_tiles / 8];
    const auto shared_bytes = static_cast<std::size_t>(wide_shared_bytes(kind, token_tiles));
    if (kernel == nullptr || shared_bytes > limits.shared_bytes) continue;
    const double block_bytes = std::max<double>(kTileWarps * unit_block_bytes(kind),
                                                kExpandedBytes + token_tiles * kWideBytes);
    ProductPlan plan = plan_tiles(args, limits, kernel, token_tiles, block_bytes);
    plan.threads = wide_threads(token_tiles);
    plan.shared_bytes = shared_bytes;
    keep_better(best, plan);
  }
  return best;
}

namespace {

// Of a block of 64 columns.
double stream_tile_bytes(const ProductPlan& plan) {
  return static_cast<double>(kStreamUnits * plan.unit_rows) * kBlockColumns * 2;
}

}  // namespace

ProductPlan plan_stream_tokens(ProductArgs args, const ProductLimits& limits) {
  ProductPlan plan, best;
  plan.token_tiles = args.tokens <= 32 ? 4 : 8;
  plan.threads = kStreamThreads;
  plan.shared_bytes = static_cast<std::size_t>(stream_shared_bytes(plan.token_tiles));
  if (plan.shared_bytes > limits.shared_bytes) return best;
  plan.kernel = kernels_of(WeightKind::bfloat).wide[plan.token_tiles / 8];
  // Tiles of fewer rows for whole columns only: clusters of more tiles were slower.
  for (plan.unit_rows = kStreamUnitRows; plan.unit_rows >= kStreamUnitRows / 2;
       plan.unit_rows -= 8) {
    count_units(args, plan.unit_rows);
    const int tiles = ceil_divide(args.units, kStreamUnits);
    for (const int slices : {1, 2, 3, 4, 6}) {
      if (slices > 1 &&
          (!limits.clusters || plan.unit_rows < kStreamUnitRows || args.blocks < slices ||
           tiles * slices > cluster_places(limits.multiprocessors, slices))) {
        continue;
      }
      const int rounds = slices > 1 ? 1 : ceil_divide(tiles, limits.multiprocessors);
      plan.slices = plan.cluster = slices;
      plan.thread_blocks = ceil_divide(tiles, rounds) * slices;
      plan.cost = rounds * (stream_tile_bytes(plan) * ceil_divide(args.blocks, slices) +
                            (slices > 1 ? kStreamSharedBytes : kStreamBytes));
      keep_better(best, plan);
    }
  }
  return best;
}

}  // namespace quire::cuda
