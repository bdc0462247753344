#pragma once

#include <cstddef>

#include "matmul/product_args.h"

namespace quire::cuda {

// What a plan may use.
struct ProductLimits {
  int multiprocessors = 0;
  std::size_t shared_bytes = 0;   // of a thread block
  std::size_t partial_bytes = 0;  // of the workspace
  std::size_t counters = 0;
};

// How one launch is laid out.
struct ProductPlan {
  bool possible = false;
  bool few = false;  // few_tokens, else many_tokens
  int token_tiles = 0;
  int slices = 1, slice_chunks = 0, groups = 1;
  int thread_blocks = 0, threads = 0;
  std::size_t shared_bytes = 0;
  double cost = 0;
};

// How the columns of a matrix are cut into chunks; depends on nothing else.
struct ChunkPlan {
  int blocks = 0, chunk_blocks = 0, chunks = 0;
  explicit ChunkPlan(std::int64_t columns);
};

// Chooses slices and groups of args (units, tokens, chunks, partial_chunks) so that the busiest
// multiprocessor has the least to read.
ProductPlan plan_few_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits);
ProductPlan plan_many_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits);

}  // namespace quire::cuda
