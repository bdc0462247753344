#pragma once

#include "matmul/instructions.cuh"
#include "matmul/product_args.h"

// The input of few_tokens on its way to shared memory, [token][slice's columns], few_input_stride
// bytes from one token to the next.
namespace quire::cuda {

// Input columns [first, first + width) of all tokens to shared memory; zeros past the matrix.
__device__ __forceinline__ void stage_input(const ProductArgs& args, int first, int width,
                                            std::byte* to, std::size_t stride) {
  const int pieces = width / 8;
  const bool aligned =
      args.columns % 8 == 0 && reinterpret_cast<std::uintptr_t>(args.input) % 16 == 0;
  for (int i = threadIdx.x; i < args.tokens * pieces; i += blockDim.x) {
    const int token = i / pieces, column = first + i % pieces * 8;
    const __nv_bfloat16* from =
        args.input + static_cast<std::int64_t>(token) * args.columns + column;
    std::byte* piece = to + token * stride + (i % pieces) * 16;
    if (aligned) {
      const bool valid = column < args.columns;
      copy_async_or_zero(shared_address(piece), valid ? from : args.input, valid);
      continue;
    }
    std::uint32_t words[4] = {};
    for (int e = 0; e < 8 && column + e < args.columns; ++e) {
      words[e / 2] |= static_cast<std::uint32_t>(__bfloat16_as_ushort(from[e])) << (16 * (e % 2));
    }
    *reinterpret_cast<uint4*>(piece) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Whether stage_input can be bulk copies.
__device__ __forceinline__ bool whole_input(const ProductArgs& args) {
  return kBulkCopies && args.columns % kBlockColumns == 0 &&
         reinterpret_cast<std::uintptr_t>(args.input) % 16 == 0;
}
// One warp copies the input: each lane one piece of one token.
__device__ __forceinline__ void copy_input_pieces(const ProductArgs& args, int first, int blocks,
                                                  std::uint32_t to, std::size_t stride,
                                                  std::uint32_t barriers, int lane) {
  const int piece = lane / kFewTokens, token = lane % kFewTokens;
  const int width = input_piece_blocks(blocks) * kBlockColumns, from = first + piece * width;
  const int bytes =
      max(0, min(min(width, blocks * kBlockColumns - piece * width), args.columns - from)) * 2;
  const std::uint32_t barrier = barriers + 8 * piece;
  if (token == 0) expect_bytes(barrier, args.tokens * bytes);
  __syncwarp();
  if (token < args.tokens && bytes > 0) {
    copy_bulk(to + token * stride + piece * width * 2,
              args.input + static_cast<std::int64_t>(token) * args.columns + from, bytes, barrier);
  }
}

// Which of the input's pieces have arrived.
struct InputPieces {
  std::uint32_t barrier;  // of the next piece
  int piece_blocks;
  int ready;  // blocks of the slice
  __device__ __forceinline__ void wait(int blocks) {
    while (ready < blocks) {
      wait_barrier(barrier, 0);
      barrier += 8;
      ready += piece_blocks;
    }
  }
};

}  // namespace quire::cuda
