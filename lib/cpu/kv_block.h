#pragma once

#include "attention/tile_loop.h"
#include "cpu/pair_kernels.h"
#include "cpu/row_kernels.h"
#include "device/kv_cache.h"

namespace quire::cpu {

// The keys and values of one head of one sequence, as the tile loop reads them.
struct KvBlocks {
  const RowKernels* kernels = nullptr;
  const PairKernels* pairs = nullptr;  // set: the pages are paired
  const KvLayer* kv = nullptr;
  const PageId* pages = nullptr;  // page table of the sequence
  KvLayout layout;
  int head = 0;

  attention::BlockSource source() const;
};

}  // namespace quire::cpu
