#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <quire/status.h>

#include "sampling/draw.h"

namespace quire::sampling {

// The distribution that draw_token draws from: {id, probability} of every token of a weight above
// 0, by id. For tests and inspection.
Result<std::vector<std::pair<std::int32_t, double>>> distribution(const DrawArgs& args,
                                                                  DrawScratch& scratch);

}  // namespace quire::sampling
