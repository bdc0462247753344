#pragma once

#include <cuda.h>

#include "attention/attention_args.h"

namespace quire::cuda::hopper {

constexpr int kDecodeBox = 16;  // pages are a multiple of it

struct DecodeArgs {
  AttentionArgs call;
  CUtensorMap kv;  // boxes of kDecodeBox tokens
};

}  // namespace quire::cuda::hopper
