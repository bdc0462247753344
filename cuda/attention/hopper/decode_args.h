#pragma once

#include <cuda.h>

#include "attention/attention_args.h"

namespace quire::cuda::hopper {

struct DecodeArgs {
  AttentionArgs call;
  CUtensorMap kv;
  int box_shift;  // tokens of a box: those of a page, at most of a block
};

}  // namespace quire::cuda::hopper
