#include "matmul/product_plan.h"

#include <algorithm>

namespace quire::cuda {
namespace {

constexpr int kChunks = 8;       // at most
constexpr int kChunkBlocks = 4;  // at least

int ceil_divide(int a, int b) {
  return (a + b - 1) / b;
}

std::size_t partials_of_unit(const ProductArgs& args, int slices) {
  return args.partial_chunks ? static_cast<std::size_t>(args.chunks)
                             : static_cast<std::size_t>(slices);
}

// Share of its bandwidth that a multiprocessor reaches with so many warps.
double share_of_warps(int warps) {
  return warps >= 16 ? 1.0 : warps >= 12 ? 0.98 : warps >= 8 ? 0.94 : 0.94 * warps / 8;
}

// Cost of writing and reading partial sums beside that of reading the weights.
double partial_cost(std::size_t partial_bytes, std::size_t weight_bytes) {
  return 1.02 + 1.5 * static_cast<double>(partial_bytes) / static_cast<double>(weight_bytes);
}

}  // namespace

ChunkPlan::ChunkPlan(std::int64_t columns)
    : blocks(static_cast<int>((columns + kBlockColumns - 1) / kBlockColumns)),
      chunk_blocks(std::max(kChunkBlocks, ceil_divide(blocks, kChunks))),
      chunks(ceil_divide(blocks, chunk_blocks)) {}

ProductPlan plan_few_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits) {
  ProductPlan best;
  const int token_tiles = args.tokens <= 8 ? 1 : 2;
  if (args.tokens > 16) return best;
  const auto tokens = static_cast<std::size_t>(args.tokens);
  for (int slice_chunks = 1; slice_chunks <= args.chunks; ++slice_chunks) {
    const int slices = ceil_divide(args.chunks, slice_chunks);
    const std::size_t unit_partials = partials_of_unit(args, slices) * tokens * kUnitRows * 4;
    if (slices > 1 &&
        (static_cast<std::size_t>(args.units) > limits.counters ||
         unit_partials * static_cast<std::size_t>(args.units) > limits.partial_bytes)) {
      continue;
    }
    for (int groups = 1; groups <= 15; ++groups) {
      const int warps = groups * slice_chunks;
      const std::size_t shared =
          static_cast<std::size_t>(warps) *
              (static_cast<std::size_t>(few_ring_bytes(kind)) + tokens * kSumStride * 4) +
          tokens * few_input_stride(slice_chunks * args.chunk_blocks) +
          static_cast<std::size_t>(groups) * 4;
      if (warps * 32 > few_threads(token_tiles) || shared > limits.shared_bytes) break;
      const int peers =
          std::min(std::max(1, limits.multiprocessors / slices), ceil_divide(args.units, groups));
      const int rounds = ceil_divide(args.units, peers * groups);
      double cost = static_cast<double>(rounds) * groups * slice_chunks / share_of_warps(warps);
      if (slices > 1) {
        cost *= partial_cost(2 * unit_partials,
                             2 * static_cast<std::size_t>(args.blocks) * panel_block_bytes(kind));
      }
      if (!best.possible || cost < best.cost) {
        best = {true,   true,           token_tiles, slices, slice_chunks,
                groups, slices * peers, warps * 32,  shared, cost};
      }
    }
  }
  return best;
}

ProductPlan plan_many_tokens(const ProductArgs& args, WeightKind kind,
                             const ProductLimits& limits) {
  ProductPlan best;
  const int token_tiles = args.tokens <= 32 ? 4 : 8;
  const int tiles = ceil_divide(args.units, kTileWarps) * ceil_divide(args.tokens, token_tiles * 8);
  const std::size_t shared = static_cast<std::size_t>(tile_stages(kind)) *
                             static_cast<std::size_t>(tile_stage_bytes(kind, token_tiles));
  if (shared > limits.shared_bytes) return best;
  for (int slice_chunks = args.chunks; slice_chunks >= 1; --slice_chunks) {
    const int slices = ceil_divide(args.chunks, slice_chunks);
    const std::size_t tile_partials = partials_of_unit(args, slices) * kTileWarps * kUnitRows *
                                      static_cast<std::size_t>(token_tiles) * 8 * 4;
    if (slices > 1 && (static_cast<std::size_t>(tiles) > limits.counters ||
                       tile_partials * static_cast<std::size_t>(tiles) > limits.partial_bytes)) {
      continue;
    }
    const int waves = ceil_divide(tiles * slices, std::max(1, limits.multiprocessors));
    double cost = static_cast<double>(waves) * slice_chunks;
    if (slices > 1) {
      cost *= partial_cost(2 * tile_partials, 2 * static_cast<std::size_t>(args.blocks) *
                                                  kTileWarps * panel_block_bytes(kind));
    }
    if (!best.possible || cost < best.cost) {
      best = {true, false,          token_tiles,     slices, slice_chunks,
              1,    tiles * slices, kTileWarps * 32, shared, cost};
    }
  }
  return best;
}

}  // namespace quire::cuda
