#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>

#include "matmul/product.h"
#include "matmul/weight_kind.h"

namespace quire::cuda {

struct ProductPart {
  const std::byte* weights = nullptr;
  const float* bias = nullptr;  // of row 0 of the matrix, or null
  int first_unit = 0;           // of the launch
  int begin = 0, end = 0;       // rows of the matrix that are stored
  int skipped_units = 0;        // units of the matrix before first_unit
  std::int64_t out_column = 0;  // of row `begin`
};

// The argument of every product kernel.
//
// The order of sums: the columns of a row are cut into chunks of `chunk_blocks` blocks of 64; a
// chunk is summed from zero by mma.m16n8k16 in ascending order; the chunks are added to zero in
// ascending order. A launch may cut the columns into slices (of whole chunks) for different thread
// blocks; then the last block to finish a unit adds what the others left in `partials`. In
// deterministic products the chunks depend on the number of columns only and the partials are the
// sums of chunks, so that a row's bits are always the same; in others they are those of slices, and
// few_tokens may deal the blocks of a slice out to its warps in turn.
struct ProductArgs {
  ProductPart parts[3];
  int part_count = 0;
  bool gated = false;  // a unit is panel u of parts[0] and panel u of parts[1]
  int units = 0;
  std::size_t panel_stride = 0;
  std::uint32_t table[4] = {};

  const __nv_bfloat16* input = nullptr;
  int tokens = 0, columns = 0;
  int blocks = 0, chunk_blocks = 0, chunks = 0;

  int slices = 1, slice_chunks = 0;
  bool partial_chunks = false;  // partials are those of chunks
  int cluster = 1;              // tiles: so many slices, side by side, share the sum of a tile
  int groups = 1;               // few tokens: groups of slice_chunks warps in a thread block
  int group_share = 1 << 16;    // few tokens: 2^16 / slice_chunks, rounded up
  int stages = 1;               // few tokens: of the rings
  int unit_stages = 1;          // few tokens: stages that hold the slice of a unit
  bool in_turn = false;         // few tokens: see BlockDeal
  int unit_rows = kUnitRows;    // of stream_tokens a multiple of 8
  float* partials = nullptr;
  std::uint32_t* counters = nullptr;  // zero before and after the launch

  Epilogue epilogue = Epilogue::store_float;
  float residual_scale = 1;
  float* out_float = nullptr;
  __nv_bfloat16* out_bfloat16 = nullptr;
  std::int64_t out_stride = 0;
};

// The kernels of a kind of weights, as cudaLaunchKernelExC takes them; argument: ProductArgs.
struct ProductKernels {
  const void* few;      // up to 8 tokens
  const void* tile[2];  // tiles of 32, 64 tokens
  const void* wide[3];  // tiles of 32, 64, 128 tokens; ProductArgs and WideMaps; null if none.
                        // bfloat: stream_tokens, of others wide_tokens
  const void* expand;   // argument: ExpandArgs; null for bfloat
};
template <WeightKind kKind>
ProductKernels product_kernels();

// Threads and shared memory of the kernels.
inline constexpr int kFewWarps = 16;  // at most, that multiply
inline constexpr int kCopyWarps = 3;  // that copy weights; one more copies the input
inline constexpr int kFewThreads = (kFewWarps + 1 + kCopyWarps) * 32;
inline constexpr int kFewTokens = 8;
inline constexpr int kTileWarps = 8;
inline constexpr int kSumStride = 36;  // floats of a token's sums of a unit: no bank conflicts

constexpr int panel_block_bytes(WeightKind kind) {  // 16 rows x 64 columns
  return kind == WeightKind::bfloat ? kPanelRows * kBlockColumns * 2 : record_bytes(kind);
}
constexpr int unit_block_bytes(WeightKind kind) {
  return 2 * panel_block_bytes(kind);
}
// Blocks of a stage of few_tokens: enough that a copy is 1 KB or more.
constexpr int few_stage_blocks(WeightKind kind) {
  return panel_block_bytes(kind) > 900 ? 1 : 2;
}
constexpr int few_stage_bytes(WeightKind kind) {
  return few_stage_blocks(kind) * unit_block_bytes(kind);
}
// The input arrives in so many pieces.
inline constexpr int kInputPieces = 4;
constexpr int input_piece_blocks(int slice_blocks) {
  return (slice_blocks + kInputPieces - 1) / kInputPieces;
}
constexpr std::size_t few_input_stride(int slice_blocks) {  // bytes
  return static_cast<std::size_t>(slice_blocks) * kBlockColumns * 2 + 16;
}
constexpr int tile_stages(WeightKind kind) {
  return kind == WeightKind::float32 ? 3 : 4;
}
constexpr int tile_stage_bytes(WeightKind kind, int token_tiles) {
  return kTileWarps * unit_block_bytes(kind) + token_tiles * 8 * kBlockColumns * 2;
}
// The sums of a tile, before they are stored, with room for reads past them and a word.
constexpr int tile_sum_bytes(int token_tiles) {
  return (kTileWarps * token_tiles * 8 + 8) * kSumStride * 4 + 16;
}
constexpr int larger(int a, int b) {
  return a > b ? a : b;
}
constexpr int tile_shared_bytes(WeightKind kind, int token_tiles) {
  return larger(tile_stages(kind) * tile_stage_bytes(kind, token_tiles),
                tile_sum_bytes(token_tiles));
}

// wide_tokens: warps of one or two panels multiply, so that many warps hide the waits of each other
// where their sums leave room; more warps copy.
inline constexpr int kTilePanels = 2 * kTileWarps;
inline constexpr int kTileCopyWarps = 4;
constexpr int wide_panels(int token_tiles) {
  return token_tiles > 8 ? 2 : 1;
}
constexpr int wide_warps(int token_tiles) {
  return kTilePanels / wide_panels(token_tiles);
}
constexpr int wide_threads(int token_tiles) {
  return (wide_warps(token_tiles) + kTileCopyWarps) * 32;
}
inline constexpr int kWideBlocks = 2;  // of a stage
constexpr int wide_stage_bytes(WeightKind kind, int token_tiles) {
  return kWideBlocks *
         (token_tiles * 8 * kBlockColumns * 2 + kTilePanels * panel_block_bytes(kind));
}
constexpr int wide_stages(WeightKind kind, int token_tiles) {
  const int fit = 216 * 1024 / (wide_stage_bytes(kind, token_tiles) + 16);
  return fit < 6 ? fit : 6;
}
constexpr int wide_shared_bytes(WeightKind kind, int token_tiles) {
  return larger(wide_stages(kind, token_tiles) * (wide_stage_bytes(kind, token_tiles) + 16),
                tile_sum_bytes(token_tiles));
}

// stream_tokens.
inline constexpr int kStreamUnitRows = 128;  // of a warpgroup, at most
inline constexpr int kStreamUnits = 2;       // of a tile
inline constexpr int kStreamWarps = 4 * kStreamUnits;
inline constexpr int kStreamThreads = (kStreamWarps + 2) * 32;
inline constexpr int kStreamTokens = 64;     // at most
inline constexpr int kStreamSlices = 6;      // of a cluster, at most
inline constexpr int kStreamInputs = 8;      // blocks of the input in shared memory
inline constexpr int kStreamMostSlots = 24;  // of a unit's ring
constexpr int stream_ring_bytes(int token_tiles) {
  const int inputs = kStreamInputs * token_tiles * 8 * kBlockColumns * 2;
  return (225 * 1024 - inputs) / kStreamUnits / 1024 * 1024;
}
constexpr int stream_shared_bytes(int token_tiles) {
  return kStreamUnits * (stream_ring_bytes(token_tiles) + kStreamMostSlots * 16) +
         kStreamInputs * (token_tiles * 8 * kBlockColumns * 2 + 16) + 8;
}

}  // namespace quire::cuda
