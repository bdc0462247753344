#pragma once

#include "matmul/few_tokens.cuh"

// Products with more tokens: a thread block multiplies 8 units (256 rows, one unit a warp) by a
// tile of 8 kTokenTiles tokens, with blocks of 64 columns of both in a ring in shared memory.
namespace quire::cuda {

template <WeightKind kKind, int kTokenTiles>
struct TileSums {
  float values[2][kTokenTiles][4] = {};

  __device__ __forceinline__ void add(const TileSums& other) {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) values[p][n][c] += other.values[p][n][c];
      }
    }
  }
  __device__ __forceinline__ void clear() {
    *this = TileSums();
  }

  // As partial sums: 32 lanes side by side for each register.
  static constexpr int kPartialFloats = 2 * kTokenTiles * 4 * 32;
  __device__ __forceinline__ void write(float* to, int lane) const {
#pragma unroll
    for (int i = 0; i < 2 * kTokenTiles * 4; ++i) {
      to[i * 32 + lane] = values[i / (kTokenTiles * 4)][i / 4 % kTokenTiles][i % 4];
    }
  }
  __device__ __forceinline__ void add(const float* from, int lane) {
#pragma unroll
    for (int i = 0; i < 2 * kTokenTiles * 4; ++i) {
      values[i / (kTokenTiles * 4)][i / 4 % kTokenTiles][i % 4] += __ldcg(from + i * 32 + lane);
    }
  }

  // Stores the unit for tokens [first, args.tokens).
  __device__ __forceinline__ void store(const ProductArgs& args, int unit, int first,
                                        int lane) const {
    const UnitPlace place(args, unit);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int token = first + n * 8 + lane % 4 * 2 + c % 2, r = lane / 4 + c / 2 * 8;
        if (token >= args.tokens) continue;
        if (args.gated) {
          store_gated(args, place, r, token, values[0][n][c], values[1][n][c]);
        } else {
          store_sum(args, place, r, token, values[0][n][c]);
          store_sum(args, place, r + kPanelRows, token, values[1][n][c]);
        }
      }
    }
  }
};

// Columns [64 block, 64 block + 64) of the tokens from `first` to shared memory, the 16-byte pieces
// of row r at piece ^ (r % 8); zeros past the input. Called by all threads of the block.
template <int kTokenTiles>
__device__ __forceinline__ void copy_input(const ProductArgs& args, int first, int block,
                                           std::uint32_t to) {
#pragma unroll
  for (int i = 0; i < kTokenTiles / 4; ++i) {
    const int row = threadIdx.x / 8 + 32 * i, piece = threadIdx.x % 8;
    const int token = first + row, column = block * kBlockColumns + piece * 8;
    const bool valid = token < args.tokens && column < args.columns;
    copy_async_or_zero(
        to + row * 128 + ((piece ^ (row % 8)) * 16),
        args.input + (valid ? static_cast<std::int64_t>(token) * args.columns + column : 0), valid);
  }
}

template <WeightKind kKind, int kTokenTiles, int tile>
__device__ __forceinline__ void add_wide_tile(float (&sums)[2][kTokenTiles][4],
                                              const LaneWeights<kKind> (&weights)[2],
                                              std::uint32_t input, int piece, int row) {
  constexpr int kParts = LaneWeights<kKind>::kParts;
  std::uint32_t a[2][kParts][4];
  weights[0].template fragment<tile>(a[0]);
  weights[1].template fragment<tile>(a[1]);
#pragma unroll
  for (int n = 0; n < kTokenTiles; n += 2) {
    std::uint32_t b[4];
    load_matrices(b, input + n * 8 * 128 + (((2 * tile + piece) ^ row) * 16));
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        multiply_add(sums[p][n], a[p][part], b[0], b[1]);
        multiply_add(sums[p][n + 1], a[p][part], b[2], b[3]);
      }
    }
  }
}

template <WeightKind kKind, int kTokenTiles>
__global__ void __launch_bounds__(kTileWarps * 32, 1)
    many_tokens(const __grid_constant__ ProductArgs args) {
  extern __shared__ __align__(128) std::byte memory[];
  constexpr int kStages = tile_stages(kKind), kPanel = panel_block_bytes(kKind);
  constexpr int kStageBytes = tile_stage_bytes(kKind, kTokenTiles);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Thread blocks that share rows run side by side.
  const int token_tiles = (args.tokens + kTokenTiles * 8 - 1) / (kTokenTiles * 8);
  const int token_tile = blockIdx.x % token_tiles, rest = blockIdx.x / token_tiles;
  const int slice = rest % args.slices, row_tile = rest / args.slices;
  const int unit = row_tile * kTileWarps + warp, first_token = token_tile * kTokenTiles * 8;
  const int slice_blocks = args.slice_chunks * args.chunk_blocks;
  const int begin = min(slice * slice_blocks, args.blocks);
  const int end = min(begin + slice_blocks, args.blocks);

  const std::byte* panels[2] = {};
  if (unit < args.units) {
    const UnitPlace place(args, unit);
    panels[0] = place.panel(args, 0);
    panels[1] = place.panel(args, 1);
  }
  const std::uint32_t shared = shared_address(memory);
  const std::size_t row_bytes = static_cast<std::size_t>(args.blocks) * kBlockColumns * 2;
  const auto copy_weights = [&](int block, int slot) {
    if (unit >= args.units || block >= end) return;
    const std::uint32_t to = shared + slot * kStageBytes + warp * 2 * kPanel;
    copy_blocks<kKind>(to, panels[0], block, 1, row_bytes, lane);
    copy_blocks<kKind>(to + kPanel, panels[1], block, 1, row_bytes, lane);
  };
  const auto copy_tokens = [&](int block, int slot) {
    if (block >= end) return;
    copy_input<kTokenTiles>(args, first_token, block,
                            shared + slot * kStageBytes + kTileWarps * 2 * kPanel);
  };
  for (int i = 0; i < kStages - 1; ++i) copy_weights(begin + i, i);
  let_next_start();
  wait_for_inputs();
  for (int i = 0; i < kStages - 1; ++i) {
    copy_tokens(begin + i, i);
    commit_copies();
  }

  const int matrix = lane / 8;
  const std::uint32_t lane_input =
      shared + kTileWarps * 2 * kPanel + (matrix / 2 * 8 + lane % 8) * 128;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  constexpr int kPartial = TileSums<kKind, kTokenTiles>::kPartialFloats;
  const int count = args.partial_chunks ? args.chunks : args.slices;
  const std::size_t tile_index = static_cast<std::size_t>(row_tile) * token_tiles + token_tile;
  float* partials = args.partials + tile_index * count * kTileWarps * kPartial + warp * kPartial;

  TileSums<kKind, kTokenTiles> chunk, total;
  int slot = 0, left = args.chunk_blocks, chunk_index = slice * args.slice_chunks;
#pragma unroll 1
  for (int block = begin; block < end; ++block) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    const int free_slot = slot == 0 ? kStages - 1 : slot - 1;
    copy_weights(block + kStages - 1, free_slot);
    copy_tokens(block + kStages - 1, free_slot);
    commit_copies();
    const std::byte* stage = memory + slot * kStageBytes + warp * 2 * kPanel;
    LaneWeights<kKind> weights[2];
    weights[0].load(stage, lane, table);
    weights[1].load(stage + kPanel, lane, table);
    const std::uint32_t input = lane_input + slot * kStageBytes;
    add_wide_tile<kKind, kTokenTiles, 0>(chunk.values, weights, input, matrix % 2, lane % 8);
    add_wide_tile<kKind, kTokenTiles, 1>(chunk.values, weights, input, matrix % 2, lane % 8);
    add_wide_tile<kKind, kTokenTiles, 2>(chunk.values, weights, input, matrix % 2, lane % 8);
    add_wide_tile<kKind, kTokenTiles, 3>(chunk.values, weights, input, matrix % 2, lane % 8);
    slot = slot + 1 == kStages ? 0 : slot + 1;
    if (--left == 0 || block + 1 == end) {
      if (args.slices > 1 && args.partial_chunks) {
        chunk.write(partials + static_cast<std::size_t>(chunk_index) * kTileWarps * kPartial, lane);
      } else {
        total.add(chunk);
      }
      ++chunk_index;
      left = args.chunk_blocks;
      chunk.clear();
    }
  }
  wait_for_copies<0>();
  if (args.slices > 1) {
    if (!args.partial_chunks) {
      total.write(partials + static_cast<std::size_t>(slice) * kTileWarps * kPartial, lane);
    }
    __syncthreads();
    const UnitGroup all{static_cast<int>(threadIdx.x), kTileWarps * 32, 1};
    if (!last_of_unit(args, static_cast<int>(tile_index), all,
                      reinterpret_cast<std::uint32_t*>(memory))) {
      return;
    }
    total.clear();
    for (int i = 0; i < count; ++i) {
      total.add(partials + static_cast<std::size_t>(i) * kTileWarps * kPartial, lane);
    }
  }
  if (unit < args.units) total.store(args, unit, first_token, lane);
}

}  // namespace quire::cuda
