#pragma once

#include <cstddef>
#include <cstdint>

#include "base/launch.h"
#include "sampling/device_draw.h"

namespace quire::cuda {

// Draws `count` tokens, one thread block each; all pointers are device memory. `words` holds the
// lists of the draws. Same tokens as quire::draw_token, up to sums of weights that differ in their
// last bits. `count` >= 1; vocabulary at most kMostVocabulary.
Status draw_tokens(const Launch& launch, const DeviceDraw* draws, const std::int32_t* words,
                   int count, int vocabulary, DeviceDrawResult* results);

}  // namespace quire::cuda
