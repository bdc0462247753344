#pragma once

#include "attention/attention_args.h"
#include "base/launch.h"

namespace quire::cuda {

// Merges the partial results of split tiles in order of their keys and writes the outputs.
// `tiles`: at least the number of merge items, or fewer if there are very many.
Status launch_merge(const Launch& launch, const AttentionArgs& args, int tiles);

}  // namespace quire::cuda
