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
  bool clusters = false;  // the device has thread block clusters
};

// How one launch is laid out.
struct ProductPlan {
  const void* kernel = nullptr;
  int token_tiles = 0;
  int chunk_blocks = 0, chunks = 0;
  int slices = 1, slice_chunks = 1, groups = 1, stages = 1, unit_stages = 1;
  int cluster = 1;  // thread blocks
  int thread_blocks = 0, threads = 0;
  int unit_rows = kUnitRows;
  std::size_t shared_bytes = 0;
  double cost = 0;

  // few_tokens: x slice, y which of those that share units; others: all in x.
  dim3 grid() const {
    const auto all = static_cast<unsigned>(thread_blocks), x = static_cast<unsigned>(slices);
    return token_tiles == 0 ? dim3(x, all / x) : dim3(all);
  }
};

// How deterministic sums cut the columns of a matrix into chunks; depends on nothing else.
struct ChunkPlan {
  int blocks = 0, chunk_blocks = 0, chunks = 0;
  explicit ChunkPlan(std::int64_t columns);
};

// Counts the units of `unit_rows` rows of args' parts.
void count_units(ProductArgs& args, int unit_rows);

// Chooses chunks (unless args.partial_chunks: then the fixed ones), slices and groups for args'
// units, tokens and columns so that the busiest multiprocessor has the least to read.
// The plan has no kernel if there is none that can do it.
ProductPlan plan_few_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits);
ProductPlan plan_many_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits);
ProductPlan plan_wide_tokens(const ProductArgs& args, WeightKind kind, const ProductLimits& limits);
// Of bfloat weights; with units of kStreamUnitRows rows.
ProductPlan plan_stream_tokens(ProductArgs args, const ProductLimits& limits);

}  // namespace quire::cuda
