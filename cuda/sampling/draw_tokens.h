#pragma once

#include <cstddef>
#include <cstdint>

#include "base/launch.h"
#include "sampling/device_draw.h"

namespace quire::cuda {

// Lets draw_tokens run on the current device; to be called before. The largest vocabulary that
// there is shared memory for, at most kMostVocabulary.
Result<int> prepare_draws();

// Draws `count` tokens. `draws` and `results` are pinned memory of the host (or device memory), the
// draws complete when this is called; the rest is device memory. `words` holds the lists of the
// draws. Same tokens as quire::draw_token, up to sums of weights that differ in their last bits,
// and the same bits for any `count`. `count` >= 1; vocabulary at most what prepare_draws said.
Status draw_tokens(const Launch& launch, const DeviceDraw* draws, const std::int32_t* words,
                   int count, int vocabulary, DeviceDrawResult* results);

// tokens[row] = the token of results[draws[row]], which earlier work on the stream writes.
Status take_tokens(const Launch& launch, const DeviceDrawResult* results, const std::int32_t* draws,
                   int rows, std::int32_t* tokens);

}  // namespace quire::cuda
