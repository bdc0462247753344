#pragma once

#include "matmul/few_tokens.cuh"

// Products with more tokens: a thread block multiplies 8 units (256 rows, one unit a warp) by a
// tile of 8 kTokenTiles tokens, with blocks of 64 columns of both in a ring in shared memory.
namespace quire::cuda {

template <int kTokenTiles>
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
};

inline constexpr int kTogether = 8;  // tokens: so many reads are under way at a time

// Stores tokens [first, end) of a unit; read(token, row, sums) gives the sums of kTogether tokens
// (of those from `end` on anything). Rolled up: unrolled over the registers of a tile this would be
// most of a kernel's code, and its time. All of kTogether tokens is read before the first write,
// since the compiler must keep their order.
template <class Read>
__device__ __forceinline__ void store_unit(const ProductArgs& args, int unit, int first, int end,
                                           int lane, Read&& read) {
  const UnitPlace place(args, unit);
  if (args.gated) {
    const int r = lane % kPanelRows, half = lane / kPanelRows;
#pragma unroll 1
    for (int token = first; token < end; token += kTogether) {
      float gate[kTogether], up[kTogether];
      read(token, r, gate);
      read(token, r + kPanelRows, up);
#pragma unroll
      for (int i = 0; i < kTogether; i += 2) {  // half a warp for each of two tokens
        const float g = half == 0 ? gate[i] : gate[i + 1], u = half == 0 ? up[i] : up[i + 1];
        if (token + i + half < end) store_gated(args, place, r, token + i + half, g, u);
      }
    }
    return;
  }
  const Outputs outputs(args, place);
  const bool adds = args.epilogue == Epilogue::add_residual;
#pragma unroll 1
  for (int token = first; token < end; token += kTogether) {
    float sums[kTogether], old[kTogether];
    read(token, lane, sums);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      old[i] = adds && token + i < end ? outputs.read(lane, token + i) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (token + i >= end) continue;
      if (adds) {
        outputs.write_sum(lane, token + i, old[i], sums[i]);
      } else {
        outputs.write(lane, token + i, sums[i]);
      }
    }
  }
}

// A thread block's place in the grid: slices of a tile side by side (they are a cluster), then the
// tiles that share rows.
struct TilePlace {
  int token_tiles, slice, row_tile, token_tile, first_token, begin, end;

  __device__ __forceinline__ TilePlace(const ProductArgs& args, int tile_tokens) {
    token_tiles = (args.tokens + tile_tokens - 1) / tile_tokens;
    slice = blockIdx.x % args.slices;
    token_tile = blockIdx.x / args.slices % token_tiles;
    row_tile = blockIdx.x / args.slices / token_tiles;
    first_token = token_tile * tile_tokens;
    const int slice_blocks = args.slice_chunks * args.chunk_blocks;
    begin = min(slice * slice_blocks, args.blocks);
    end = min(begin + slice_blocks, args.blocks);
  }
  __device__ __forceinline__ int index() const { return row_tile * token_tiles + token_tile; }
};

// Adds `count` partial sums [token][32] of a unit, `step` floats apart, for tokens [first, end) to
// [token][kSumStride]. Called by a warp: eight lanes take a token's rows, each of two tokens.
__device__ __forceinline__ void add_partials(const float* partials, int count, std::size_t step,
                                             int first, int end, int lane, float* to) {
  const int row = lane % 8 * 4;
#pragma unroll 1
  for (int token = first + lane / 8; token < end; token += 8) {
    const int tokens[2] = {token, min(token + 4, end - 1)};
    float4 sums[2] = {};
#pragma unroll 8
    for (int k = 0; k < count; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 v = __ldcg(
            reinterpret_cast<const float4*>(partials + k * step + tokens[i] * kUnitRows + row));
        sums[i].x += v.x, sums[i].y += v.y, sums[i].z += v.z, sums[i].w += v.w;
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<float4*>(to + tokens[i] * kSumStride + row) = sums[i];
    }
  }
  __syncwarp();
}

// Stores a tile; called by the kTilePanels / kPanels warps that hold its sums, kPanels panels each.
// With several slices, their partial sums are in args.partials, [tile][partial][unit][token][32]:
// then the thread blocks of the last cluster to come add them, each its share of the tokens.
template <int kPanels, int kTokenTiles>
__device__ __forceinline__ void store_tile(const ProductArgs& args, const TilePlace& place,
                                           const float (&sums)[kPanels][kTokenTiles][4],
                                           std::byte* memory) {
  constexpr int kTokens = kTokenTiles * 8, kUnitWarps = 2 / kPanels;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tile_unit = warp / kUnitWarps, unit_warp = warp % kUnitWarps;
  const int unit = place.row_tile * kTileWarps + tile_unit;
  const int tokens = min(kTokens, args.tokens - place.first_token);
  const UnitGroup all{static_cast<int>(threadIdx.x), kTileWarps * kUnitWarps * 32, 1};
  float* shared = reinterpret_cast<float*>(memory) + tile_unit * kTokens * kSumStride;
  const int count = args.partial_chunks ? args.chunks : args.slices;
  constexpr std::size_t kPartial = static_cast<std::size_t>(kTileWarps) * kTokens * kUnitRows;
  float* partials = args.partials + (static_cast<std::size_t>(place.index()) * count) * kPartial +
                    tile_unit * kTokens * kUnitRows;
  int first = 0, end = tokens;
  if (args.slices == 1) {
    all.sync();  // the stages are free
    spread_sums(sums, tokens, kSumStride, lane, shared + unit_warp * kPanelRows);
    all.sync();
  } else {
    if (!args.partial_chunks) {
      spread_sums(sums, tokens, kUnitRows, lane,
                  partials + place.slice * kPartial + unit_warp * kPanelRows);
    }
    const int rank = place.slice % args.cluster;
    if (args.cluster > 1) {
      sync_cluster();
      const int share = (tokens + args.cluster - 1) / args.cluster;
      first = min(rank * share, tokens);
      end = min(first + share, tokens);
    }
    auto* word = reinterpret_cast<std::uint32_t*>(memory + tile_sum_bytes(kTokenTiles)) - 1;
    if (args.slices > args.cluster && !last_to_come(args, place.index() * args.cluster + rank,
                                                    args.slices / args.cluster, all, word)) {
      return;
    }
  }
  if (unit >= args.units) return;
  const int share = ((end - first + kUnitWarps - 1) / kUnitWarps + 7) / 8 * 8;  // of a warp
  first = min(first + unit_warp * share, end);
  end = min(first + share, end);
  if (args.slices > 1) add_partials(partials, count, kPartial, first, end, lane, shared);
  store_unit(args, unit, place.first_token + first, place.first_token + end, lane,
             [&](int token, int row, float(&to)[kTogether]) {
               const float* from = shared + (token - place.first_token) * kSumStride + row;
#pragma unroll
               for (int i = 0; i < kTogether; ++i) to[i] = from[i * kSumStride];
             });
}

// Columns [64 block, 64 block + 64) of the tokens from `first` to shared memory, the 16-byte pieces
// of row r at piece ^ (r % 8); zeros past the input. Called by all threads of the block.
template <int kTokenTiles>
__device__ __forceinline__ void copy_input(const ProductArgs& args, int first, int block,
                                           std::uint32_t to) {
#pragma unroll
  for (int i = 0; i < kTokenTiles / 4; ++i) {  // 32 rows each
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
  extern __shared__ __align__(1024) std::byte memory[];
  constexpr int kStages = tile_stages(kKind), kPanel = panel_block_bytes(kKind);
  constexpr int kStageBytes = tile_stage_bytes(kKind, kTokenTiles);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const TilePlace place(args, kTokenTiles * 8);
  const int unit = place.row_tile * kTileWarps + warp;
  const int begin = place.begin, end = place.end;

  const std::byte* panels[2] = {};
  if (unit < args.units) {
    const UnitPlace unit_place(args, unit);
    panels[0] = unit_place.panel(args, 0);
    panels[1] = unit_place.panel(args, 1);
  }
  const std::uint32_t shared = shared_address(memory);
  const std::size_t row_bytes = static_cast<std::size_t>(args.blocks) * kBlockColumns * 2;
  const auto copy_weights = [&](int block, int slot) {
    if (unit >= args.units || block >= end) return;
    const std::uint32_t to = shared + slot * kStageBytes + warp * 2 * kPanel;
    copy_block<kKind>(to, panels[0], block, row_bytes, lane);
    copy_block<kKind>(to + kPanel, panels[1], block, row_bytes, lane);
  };
  const auto copy_tokens = [&](int block, int slot) {
    if (block >= end) return;
    copy_input<kTokenTiles>(args, place.first_token, block,
                            shared + slot * kStageBytes + kTileWarps * 2 * kPanel);
  };
  for (int i = 0; i < kStages - 1; ++i) copy_weights(begin + i, i);
  allow_next_kernel();
  wait_for_previous_kernel();
  for (int i = 0; i < kStages - 1; ++i) {
    copy_tokens(begin + i, i);
    commit_copies();
  }

  const int matrix = lane / 8;
  const std::uint32_t lane_input =
      shared + kTileWarps * 2 * kPanel + (matrix / 2 * 8 + lane % 8) * 128;
  const CodeTable table = {{args.table[0], args.table[1], args.table[2], args.table[3]}};
  TileSums<kTokenTiles> chunk, total;
  int slot = 0, left = args.chunk_blocks, chunk_index = place.slice * args.slice_chunks;
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
        constexpr std::size_t kUnit = static_cast<std::size_t>(kTokenTiles) * 8 * kUnitRows;
        const std::size_t at = static_cast<std::size_t>(place.index()) * args.chunks + chunk_index;
        spread_sums(chunk.values, args.tokens - place.first_token, kUnitRows, lane,
                    args.partials + (at * kTileWarps + warp) * kUnit);
      } else {
        total.add(chunk);
      }
      ++chunk_index;
      left = args.chunk_blocks;
      chunk.clear();
    }
  }
  wait_for_copies<0>();
  store_tile(args, place, total.values, memory);
}

}  // namespace quire::cuda
