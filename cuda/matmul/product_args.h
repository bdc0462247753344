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
// ascending order. The chunks depend on the number of columns only. A launch may cut the columns
// into slices (of whole chunks) for different thread blocks; then the last block to finish a unit
// adds what the others left in `partials`: the sums of the chunks (equal bits), or of the slices.
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
  int groups = 1;               // few tokens: groups of slice_chunks warps in a thread block
  int row_tiles = 0;            // many tokens: tiles of rows
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
  const void* few[2];   // up to 8, 16 tokens
  const void* tile[2];  // tiles of 32, 64 tokens
};
template <WeightKind kKind>
ProductKernels product_kernels();

// Threads and shared memory of the kernels.
inline constexpr int kTileWarps = 8;

constexpr int few_threads(int token_tiles) {  // at most, in a thread block
  return token_tiles == 1 ? 768 : 512;
}
// Records of a panel in a stage of a warp's ring: enough that a stage is 2 KB or more.
constexpr int stage_records(WeightKind kind) {
  return kind == WeightKind::bfloat || record_bytes(kind) >= 896 ? 1 : 2;
}
constexpr int panel_block_bytes(WeightKind kind) {  // 16 rows x 64 columns
  return kind == WeightKind::bfloat ? kPanelRows * kBlockColumns * 2 : record_bytes(kind);
}
constexpr int few_stages(WeightKind kind) {
  return kind == WeightKind::float32 ? 2 : 4;
}
constexpr int few_ring_bytes(WeightKind kind) {
  return few_stages(kind) * 2 * stage_records(kind) * panel_block_bytes(kind);
}
inline constexpr int kSumStride = 36;  // floats of a token's sums of a unit: no bank conflicts
constexpr std::size_t few_input_stride(int slice_blocks) {  // bytes
  return static_cast<std::size_t>(slice_blocks) * kBlockColumns * 2 + 16;
}
constexpr int tile_stages(WeightKind kind) {
  return kind == WeightKind::float32 ? 3 : 4;
}
constexpr int tile_stage_bytes(WeightKind kind, int token_tiles) {
  return kTileWarps * 2 * panel_block_bytes(kind) + token_tiles * 8 * kBlockColumns * 2;
}

}  // namespace quire::cuda
